"""Records that receipts hold: they have a canonical form and lose nothing."""

from __future__ import annotations

from dataclasses import fields, replace

from contracts.digest import Digest, canonical_digest
from contracts.records import AcquisitionRecord, Hop

HOP = Hop("https://example.org/a", 302, ("192.0.2.1", "192.0.2.2"), "192.0.2.1", "TLSv1.3")
RECORD = AcquisitionRecord(
    source="url",
    hops=(HOP, Hop("https://example.org/b", 200, ("192.0.2.3",), "192.0.2.3", None)),
    size_bytes=10,
    digest=Digest("1" * 64),
    media_type_claimed="image/png",
    policy="public-web",
    policy_digest=Digest("2" * 64),
    layers=("process", "seccomp"),
    seconds=0.12345,
)


def test_a_record_has_plain_values_only() -> None:
    """Digests as text, seconds as a decimal string: identities hold no floats."""
    document = RECORD.to_json()
    assert set(document) == {field.name for field in fields(AcquisitionRecord)}
    assert document["seconds"] == "0.123"
    assert (document["digest"], document["policy_digest"]) == ("sha256:" + "1" * 64, "sha256:" + "2" * 64)
    assert document["hops"][0] == {
        "url": "https://example.org/a",
        "status": 302,
        "vetted": ["192.0.2.1", "192.0.2.2"],
        "dialled": "192.0.2.1",
        "tls": "TLSv1.3",
    }
    assert document["layers"] == ["process", "seccomp"]


def test_a_files_record_has_no_network_in_it() -> None:
    """No hop, no policy, and still a canonical form."""
    document = replace(
        RECORD, source="file", hops=(), policy=None, policy_digest=None, media_type_claimed=None
    ).to_json()
    assert (document["hops"], document["policy"], document["policy_digest"]) == ([], None, None)
    assert canonical_digest(document) != canonical_digest(RECORD.to_json())


def test_any_changed_hop_is_another_record() -> None:
    """The way the bytes came is part of the receipt."""
    other = replace(RECORD, hops=(replace(HOP, dialled="192.0.2.2"), RECORD.hops[1]))
    assert canonical_digest(other.to_json()) != canonical_digest(RECORD.to_json())
    assert canonical_digest(replace(RECORD, seconds=0.1234).to_json()) == canonical_digest(RECORD.to_json())
