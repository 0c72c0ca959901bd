"""Records that receipts hold: they have a canonical form and lose nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from contracts.digest import Digest, canonical_digest
from contracts.errors import EvidenceError, FetchError, FetchUnavailable, InputError, IntegrityError, PolicyDenied
from contracts.records import AcquisitionRecord, Failure, Hop, TlsFacts

URL = Digest("3" * 64)
TLS = TlsFacts("TLSv1.3", "TLS_AES_256_GCM_SHA384", Digest("4" * 64))
HOP = Hop(
    "https://example.org/a",
    URL,
    302,
    ("192.0.2.1", "192.0.2.2"),
    "192.0.2.1",
    TLS,
    (("location", "/b"),),
    "content-length",
    0.25,
    ("192.0.2.1", "192.0.2.2"),
    0.01,
    0.02,
    0.15,
)
RECORD = AcquisitionRecord(
    source="url",
    requested="https://example.org/a",
    requested_digest=URL,
    started_at=1_700_000_000.0,
    seconds=0.12345,
    hops=(HOP, Hop("https://example.org/b", Digest("5" * 64), 200, ("192.0.2.3",), "192.0.2.3")),
    size_bytes=10,
    digest=Digest("1" * 64),
    media_type_claimed="image/png",
    policy="public-web",
    policy_digest=Digest("2" * 64),
    layers=("process", "seccomp"),
    fetcher="mosaic-evidence/0.1",
)


def test_a_record_has_plain_values_only() -> None:
    """Digests, times and seconds as text: identities hold no floats."""
    document = RECORD.to_json()
    assert set(document) == {field.name for field in fields(AcquisitionRecord)} | {"final"}
    assert (document["seconds"], document["started_at"]) == ("0.123", "2023-11-14T22:13:20.000Z")
    assert (document["digest"], document["policy_digest"]) == ("sha256:" + "1" * 64, "sha256:" + "2" * 64)
    assert document["hops"][0] == {
        "url": "https://example.org/a",
        "url_digest": "sha256:" + "3" * 64,
        "status": 302,
        "vetted": ["192.0.2.1", "192.0.2.2"],
        "dialled": "192.0.2.1",
        "tls": {"version": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "certificate": "sha256:" + "4" * 64},
        "headers": [["location", "/b"]],
        "framing": "content-length",
        "seconds": "0.250",
        "answers": ["192.0.2.1", "192.0.2.2"],
        "resolved_s": "0.010",
        "connected_s": "0.020",
        "tls_s": "0.150",
    }
    assert (document["layers"], document["final"]) == (["process", "seccomp"], "https://example.org/b")


def test_a_files_record_has_no_network_in_it() -> None:
    """No hop, no policy, and still a canonical form."""
    document = AcquisitionRecord("file", "a.png", URL, 0.0, 0.1, size_bytes=3, digest=Digest("1" * 64)).to_json()
    assert (document["hops"], document["policy"], document["policy_digest"]) == ([], None, None)
    assert document["final"] == document["requested"] == "a.png"
    assert canonical_digest(document) != canonical_digest(RECORD.to_json())


def test_any_changed_hop_is_another_record() -> None:
    """The way the bytes came is part of the receipt."""
    other = replace(RECORD, hops=(replace(HOP, dialled="192.0.2.2"), RECORD.hops[1]))
    assert canonical_digest(other.to_json()) != canonical_digest(RECORD.to_json())
    assert canonical_digest(replace(RECORD, seconds=0.1234).to_json()) == canonical_digest(RECORD.to_json())


@pytest.mark.parametrize("kind", [PolicyDenied, FetchError, FetchUnavailable, InputError, IntegrityError])
def test_a_failure_is_the_error_that_it_was_made_of(kind: type[EvidenceError]) -> None:
    """Class, rule, reason and whether asking again can help survive the record."""
    failure = Failure.of(kind("some-rule", "a reason"))
    error = failure.to_error()
    assert (type(error), error.rule, error.reason) == (kind, "some-rule", "a reason")
    assert failure.can_pass is kind.retryable


def test_what_was_not_had_cannot_be_taken_for_bytes() -> None:
    """`had` raises the failure, also where there are bytes beside it, and refuses a record of nothing."""
    assert RECORD.had() == (Digest("1" * 64), 10)
    with pytest.raises(IntegrityError, match="sha256-mismatch"):
        replace(RECORD, failure=Failure("IntegrityError", "sha256-mismatch", "others")).had()
    with pytest.raises(InputError, match="record-incomplete"):
        replace(RECORD, digest=None).had()
