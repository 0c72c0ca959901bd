"""The receipt: strict, canonical, consistent with itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import Digest, canonical_json
from contracts.errors import InputError
from contracts.outcome import Outcome
from contracts.receipt import Receipt, exact, parse_receipt, receipt_id, schema_document, timestamp
from storage.disk_blobs import DiskBlobStore
from tests.receipt_samples import changed, receipt

SCHEMA = Path(__file__).parents[2] / "schemas" / "receipt.v0.json"


@pytest.fixture
def complete(tmp_path: Path) -> Receipt:
    """The receipt of a complete attempt."""
    return receipt(DiskBlobStore(tmp_path))


def test_parsing_is_the_inverse_of_writing(complete: Receipt) -> None:
    """A receipt read from its bytes is the same, and so are its bytes and its id."""
    data = complete.to_bytes()
    assert parse_receipt(data) == complete
    assert parse_receipt(data).to_bytes() == data
    assert receipt_id(data) == Digest.of(data)


def test_the_id_is_not_in_the_document(complete: Receipt) -> None:
    """A receipt cannot name its own digest."""
    data = complete.to_bytes()
    assert receipt_id(data).hex.encode() not in data


@pytest.mark.parametrize(
    ("rule", "tamper"),
    [
        ("receipt-form", lambda d: d | {"extra": 1}),
        ("receipt-form", lambda d: {k: v for k, v in d.items() if k != "tenant"}),
        ("receipt-form", lambda d: d | {"outcome": "fine"}),
        ("receipt-form", lambda d: d | {"receipt_version": "receipt.v1"}),
        ("receipt-form", lambda d: d | {"question_digest": "sha256:abc"}),
        ("receipt-form", lambda d: d | {"bundle": d["bundle"] | {"note": "x"}}),
        ("receipt-form", lambda d: d | {"started_at": "2026-01-01T00:00:00+00:00"}),
        ("receipt-form", lambda d: d | {"attempt": d["attempt"] | {"number": 0}}),
    ],
    ids=[
        "an unknown key",
        "a missing key",
        "an outcome that is none",
        "another version",
        "a short digest",
        "an unknown key further in",
        "a time in another form",
        "an attempt numbered 0",
    ],
)
def test_what_is_not_exactly_a_receipt_is_refused(complete: Receipt, rule: str, tamper: Any) -> None:
    """Strict at every level: the rule says so."""
    document = tamper(json.loads(complete.to_bytes()))
    with pytest.raises(InputError) as refused:
        parse_receipt(canonical_json(document))
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda data: data + b"\n",
        lambda data: json.dumps(json.loads(data), indent=1).encode(),
        lambda data: data.replace(b'"tenant":"acme"', b'"tenant":"acme","tenant":"acme"'),
    ],
    ids=["a line feed at the end", "indented", "a key given twice"],
)
def test_other_bytes_for_the_same_content_are_refused(complete: Receipt, rewrite: Any) -> None:
    """One content has one form, so one id."""
    with pytest.raises(InputError, match="receipt-canonical"):
        parse_receipt(rewrite(complete.to_bytes()))


def _parts(document: Receipt, **values: Any) -> tuple[Any, ...]:
    return (msgspec.structs.replace(document.parts[0], **values), *document.parts[1:])


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("receipt-rule", lambda _: {"rule": "some-rule"}),
        ("receipt-unanswered", lambda _: {"answer": None}),
        ("receipt-submitted", lambda _: {"outcome": Outcome.REFUSED}),
        ("receipt-unsubmitted", lambda _: {"outcome": Outcome.INCOMPLETE, "request": None}),
        ("receipt-question-digest", lambda _: {"outcome": Outcome.INCOMPLETE, "question": None}),
        ("receipt-part-order", lambda r: {"parts": tuple(reversed(r.parts))}),
        ("receipt-part-kind", lambda r: {"parts": _parts(r, text="words")}),
        ("receipt-part-modality", lambda r: {"parts": _parts(r, kind="audio")}),
        ("receipt-part-locator", lambda r: {"parts": _parts(r, locator_digest=None)}),
        ("receipt-media", lambda r: {"parts": _parts(r, artifact=None)}),
        ("receipt-leases", lambda _: {"leases": ()}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_receipt_that_contradicts_itself_cannot_exist(complete: Receipt, rule: str, values: Any) -> None:
    """The constructor refuses it and names how it contradicts itself."""
    with pytest.raises(InputError) as refused:
        changed(complete, **values(complete))
    assert refused.value.rule == rule


def test_floats_are_refused_outside_the_two_documents(complete: Receipt) -> None:
    """A finding with a float does not go into a receipt; its exact text does."""
    findings = {"seconds": 1.25, "rate": 44100.0, "sizes": [1, 2.5]}
    with pytest.raises(InputError, match=r"receipt-float: receipt\.parts\[0\]\.inspection\.seconds"):
        changed(complete, parts=_parts(complete, inspection=findings)).to_bytes()
    assert exact(findings) == {"seconds": "1.25", "rate": "44100", "sizes": [1, "2.5"]}
    assert changed(complete, parts=_parts(complete, inspection=exact(findings))).to_bytes()


def test_times_are_utc_with_milliseconds() -> None:
    """RFC 3339, always the same width."""
    assert timestamp(0.0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_780_322_518.25) == "2026-06-01T14:01:58.250Z"


def test_the_published_schema_is_that_of_the_code() -> None:
    """schemas/receipt.v0.json is exactly what contracts.receipt.schema_document() returns; write it anew if not."""
    assert SCHEMA.read_bytes() == schema_document()


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    """Any bytes either parse or raise InputError."""
    with pytest.raises(InputError):
        parse_receipt(data)


def test_deep_nesting_is_refused() -> None:
    """A hundred thousand brackets end in an error of ours."""
    with pytest.raises(InputError, match="receipt-form"):
        parse_receipt(b'{"question":' + b"[" * 100_000)
