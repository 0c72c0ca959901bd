"""Verification from the store alone: each tampering is named, and what is missing is not called wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.digest import Digest, canonical_digest, wire_json
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.receipt import LimitsRecord, Receipt, UsageRecord, receipt_id
from contracts.request import question_document
from storage.disk_blobs import DiskBlobStore
from storage.verify import Verdict, VerdictName, verify_receipt
from tests.contracts.wire_chunks import DONE, USAGE, chunk
from tests.receipt_samples import (
    COMPLETE,
    CUT_SHORT,
    DERIVED,
    IMAGE,
    LENGTH,
    ORIGINAL,
    changed,
    draft,
    question,
    receipt,
    request_for,
)


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store."""
    return DiskBlobStore(tmp_path)


def verify(document: Receipt, blobs: DiskBlobStore) -> Verdict:
    """Verify a receipt under the id that its bytes have."""
    data = document.to_bytes()
    return verify_receipt(receipt_id(data), data, blobs)


def rules(verdict: Verdict) -> set[str]:
    """The rules of the findings."""
    return {finding.rule for finding in verdict.findings}


def path_of(blobs: DiskBlobStore, digest: Digest) -> Path:
    """A blob's file, made writable: what an attacker or a bad disk does."""
    path = blobs.local_path(digest)
    assert path is not None
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "wire",
    [
        COMPLETE,
        LENGTH,
        CUT_SHORT,
        b"",
        b'data: {"message":"boom"}\n\n',
        chunk("a", role="user") + DONE,
    ],
    ids=["complete", "length limited", "incomplete", "empty", "engine error", "protocol violation"],
)
def test_what_was_recorded_is_valid(blobs: DiskBlobStore, wire: bytes) -> None:
    """Whatever the outcome, the receipt of an untouched attempt verifies without a finding."""
    verdict = verify(receipt(blobs, wire), blobs)
    assert verdict.findings == ()
    assert verdict.verdict is VerdictName.VALID


def test_an_attempt_that_never_submitted_is_valid(blobs: DiskBlobStore) -> None:
    """There is nothing to read, and all that is said holds."""
    assert verify(draft(), blobs).verdict is VerdictName.VALID


BLOBS: dict[str, Callable[[Receipt], str]] = {
    "the image": lambda r: r.parts[0].artifact.digest if r.parts[0].artifact else "",
    "the derivative": lambda r: r.parts[2].artifact.digest if r.parts[2].artifact else "",
    "the original": lambda r: r.parts[2].original or "",
    "the request": lambda r: r.request.digest if r.request else "",
    "the stream": lambda r: r.stream.digest if r.stream else "",
}


@pytest.mark.parametrize("which", BLOBS)
def test_a_flipped_byte_in_any_blob_is_invalid_and_names_it(blobs: DiskBlobStore, which: str) -> None:
    """The finding has the digest in full."""
    document = receipt(blobs)
    digest = BLOBS[which](document)
    path = path_of(blobs, Digest.parse(digest))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    verdict = verify(document, blobs)
    assert verdict.verdict is VerdictName.INVALID
    assert [(finding.rule, finding.digest) for finding in verdict.findings] == [("blob-digest", digest)]


@pytest.mark.parametrize("which", BLOBS)
@pytest.mark.parametrize("edit", [lambda data: data[:-1], lambda data: data + b"x"], ids=["cut", "extended"])
def test_a_blob_of_another_length_is_invalid(blobs: DiskBlobStore, which: str, edit: Any) -> None:
    """Truncation and trailing bytes are found."""
    document = receipt(blobs)
    digest = BLOBS[which](document)
    path = path_of(blobs, Digest.parse(digest))
    path.write_bytes(edit(path.read_bytes()))
    verdict = verify(document, blobs)
    assert verdict.verdict is VerdictName.INVALID
    assert {finding.digest for finding in verdict.findings} == {digest}


@pytest.mark.parametrize("which", BLOBS)
def test_a_missing_blob_is_unverifiable_and_named(blobs: DiskBlobStore, which: str) -> None:
    """Nothing is wrong, but nobody can tell."""
    document = receipt(blobs)
    digest = BLOBS[which](document)
    path_of(blobs, Digest.parse(digest)).unlink()
    verdict = verify(document, blobs)
    assert verdict.verdict is VerdictName.UNVERIFIABLE
    assert [(finding.rule, finding.digest) for finding in verdict.findings] == [("blob-missing", digest)]


def test_something_wrong_outweighs_something_missing(blobs: DiskBlobStore) -> None:
    """One blob is gone and another damaged: invalid."""
    document = receipt(blobs)
    path_of(blobs, Digest.of(IMAGE)).unlink()
    path_of(blobs, Digest.of(DERIVED)).write_bytes(b"other")
    assert verify(document, blobs).verdict is VerdictName.INVALID


def test_bytes_that_are_not_the_receipts_are_invalid(blobs: DiskBlobStore) -> None:
    """One byte of the receipt itself changed: its id is another."""
    data = receipt(blobs).to_bytes()
    named = receipt_id(data)
    verdict = verify_receipt(named, data.replace(b'"acme"', b'"acmf"'), blobs)
    assert (verdict.verdict, rules(verdict)) == (VerdictName.INVALID, {"receipt-id"})
    assert verdict.to_json()["findings"][0]["digest"] == str(named)


def test_garbage_under_its_own_digest_is_invalid(blobs: DiskBlobStore) -> None:
    """A right id does not make a receipt."""
    for data in (b"", b"{}", b"\xff", b"[" * 100_000):
        assert rules(verify_receipt(Digest.of(data), data, blobs)) == {"receipt-form"}


def _part(document: Receipt, index: int, **values: Any) -> dict[str, Any]:
    parts = list(document.parts)
    parts[index] = msgspec.structs.replace(parts[index], **values)
    return {"parts": tuple(parts)}


def _engine(document: Receipt, **values: Any) -> dict[str, Any]:
    return {"engine": msgspec.structs.replace(document.engine, **values)}


def _answer(document: Receipt, **values: Any) -> dict[str, Any]:
    assert document.answer is not None
    return {"answer": msgspec.structs.replace(document.answer, **values)}


def _asked(document: Receipt, **values: Any) -> dict[str, Any]:
    """A question's document that was changed, with the digest that belongs to it."""
    assert document.question is not None
    asked = document.question | values
    return {"question": asked, "question_digest": str(canonical_digest(asked))}


OTHER = str(Digest.of(b"other"))
TAMPERINGS: dict[str, tuple[str, Callable[[Receipt], dict[str, Any]]]] = {
    "a locator": ("locator-digest", lambda r: _part(r, 0, locator={"kind": "file", "path": "b.png"})),
    "a locator's digest": ("locator-digest", lambda r: _part(r, 0, locator_digest=OTHER)),
    "what was acquired": ("acquisition-digest", lambda r: _part(r, 0, acquisition={"digest": OTHER})),
    "the original": ("original", lambda r: _part(r, 2, original=str(Digest.of(IMAGE)))),
    "an original without derivation": ("original", lambda r: _part(r, 0, original=str(Digest.of(ORIGINAL)))),
    "a text": ("question-parts", lambda r: _part(r, 1, text="How many squares?")),
    "the question": (
        "question-digest",
        lambda r: {"question": r.question | {"temperature": "1"} if r.question else {}},
    ),
    "the question's digest": ("question-digest", lambda _: {"question_digest": OTHER}),
    "the question's parts": ("question-parts", lambda r: _asked(r, parts=[])),
    "the question's form": ("question-form", lambda r: _asked(r, ordering_form="one-message")),
    "the question's budget": ("question-budget", lambda r: _asked(r, max_output_tokens=65)),
    "the question's answer form": ("question-schema", lambda r: _asked(r, answer_schema={"type": "string"})),
    "the identity": ("identity", lambda r: _engine(r, identity=OTHER)),
    "the release": ("identity", lambda r: _engine(r, release=r.engine.release | {"context_tokens": 4})),
    "the profile": ("release", lambda r: _engine(r, profile="0.9.2")),
    "whether it is the calibration model": ("release", lambda r: _engine(r, calibration_model=False)),
    "the limits": ("limits-digest", lambda r: {"limits": LimitsRecord(digest=OTHER, values=r.limits.values)}),
    "the answer": ("answer-digest", lambda r: _answer(r, text_digest=OTHER)),
    "the finish reason": ("answer-finish", lambda r: _answer(r, finish_reason="length")),
    "the usage": (
        "answer-usage",
        lambda r: _answer(r, usage=UsageRecord(prompt_tokens=5, completion_tokens=2, total_tokens=7)),
    ),
    "the usage is gone": ("answer-usage", lambda r: _answer(r, usage=None)),
    "the outcome": (
        "stream-outcome",
        lambda _: {"outcome": Outcome.ENGINE_ERROR, "rule": "engine-internal", "reason": "it broke", "answer": None},
    ),
    "the number of events": (
        "stream-events",
        lambda r: {"stream": msgspec.structs.replace(r.stream, events=9) if r.stream else None},
    ),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_receipt_that_says_something_else_is_invalid_by_name(blobs: DiskBlobStore, what: str) -> None:
    """Forged with a matching id, so that only the content gives it away."""
    rule, tamper = TAMPERINGS[what]
    document = receipt(blobs)
    verdict = verify(changed(document, **tamper(document)), blobs)
    assert verdict.verdict is VerdictName.INVALID
    assert rule in rules(verdict)


def test_an_incomplete_stream_cannot_be_passed_off_as_complete(blobs: DiskBlobStore) -> None:
    """The stream is validated again, so its end decides."""
    whole, cut = receipt(blobs), receipt(blobs, CUT_SHORT)
    verdict = verify(changed(whole, stream=cut.stream), blobs)
    assert "stream-outcome" in rules(verdict)


def _with_body(blobs: DiskBlobStore, document: Receipt, body: bytes) -> Receipt:
    digest, size_bytes = blobs.put_bytes(body)
    assert document.request is not None
    return changed(
        document, request=msgspec.structs.replace(document.request, digest=str(digest), size_bytes=size_bytes)
    )


BODIES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "two media swapped": ("request-artifacts", lambda b: b | {"messages": b["messages"][::-1]}),
    "a medium left out": ("request-artifacts", lambda b: b | {"messages": b["messages"][1:]}),
    "a message more": ("request-artifacts", lambda b: b | {"messages": [*b["messages"], b["messages"][0]]}),
    "no text": ("request-texts", lambda b: b | {"messages": [b["messages"][0], b["messages"][2]]}),
    "another model": ("request-route", lambda b: b | {"model": "other"}),
    "another budget": ("request-budget", lambda b: b | {"max_tokens": 65}),
    "no messages": ("request-form", lambda _: {}),
    "a list": ("request-form", lambda b: [b]),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_request_that_asked_something_else_is_invalid(blobs: DiskBlobStore, what: str) -> None:
    """The request's blob is whole, and is not what the receipt says was asked."""
    rule, edit = BODIES[what]
    body = edit(msgspec.json.decode(request_for(question()).body))
    verdict = verify(_with_body(blobs, receipt(blobs), wire_json(body)), blobs)
    assert rule in rules(verdict)
    assert verdict.verdict is VerdictName.INVALID


def test_media_that_were_not_staged_files_do_not_count(blobs: DiskBlobStore) -> None:
    """A request that named a URL on the network named no artifact."""
    body = request_for(question()).body.replace(b"file:///srv", b"https://srv")
    assert rules(verify(_with_body(blobs, receipt(blobs), body), blobs)) == {"request-artifacts"}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [('{"n": 2}', Outcome.COMPLETE), ('{"n": "two"}', Outcome.ANSWER_INVALID)],
    ids=["satisfied", "not satisfied"],
)
def test_an_answer_form_is_checked_again(blobs: DiskBlobStore, text: str, outcome: Outcome) -> None:
    """The schema in the question's document judges the stream's text, as it did the first time."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    document = receipt(blobs, chunk(text, finish="stop", usage=USAGE) + DONE)
    request = request_for(replace(question(), answer_schema=schema))
    document = _with_body(blobs, document, request.body)
    invalid = outcome is Outcome.ANSWER_INVALID
    document = changed(
        document,
        question=question_document(replace(question(), answer_schema=schema), request.ordering_form),
        question_digest=str(request.question_digest),
        outcome=outcome,
        rule="answer-schema" if invalid else None,
        **_answer(document, schema_digest=str(canonical_digest(schema))),
    )
    assert verify(document, blobs).findings == ()
    other = Outcome.COMPLETE if invalid else Outcome.ANSWER_INVALID
    swapped = changed(document, outcome=other, rule=None if invalid else "answer-schema")
    assert rules(verify(swapped, blobs)) == {"stream-outcome"}


@pytest.mark.parametrize("rule", ["idle-deadline", "total-deadline", "transport-cut", "first-event-deadline"])
def test_a_stream_that_was_cut_from_outside_is_valid_as_such(blobs: DiskBlobStore, rule: str) -> None:
    """The bytes cannot tell which deadline passed; they must not be a whole answer."""
    document = changed(receipt(blobs, CUT_SHORT), rule=rule, reason="60 s without an event")
    assert verify(document, blobs).verdict is VerdictName.VALID


def test_limits_in_force_are_those_of_the_receipt(blobs: DiskBlobStore) -> None:
    """A stream that was within the limits of then is judged by those, not by today's."""
    limits = Limits(answer_bytes=5)
    record = LimitsRecord(digest=str(limits.digest()), values=asdict(limits))
    assert rules(verify(changed(receipt(blobs), limits=record), blobs)) >= {"stream-outcome"}
    generous = Limits(idle_gap_s=0.5)
    record = LimitsRecord(digest=str(generous.digest()), values=asdict(generous))
    assert verify(changed(receipt(blobs), limits=record), blobs).verdict is VerdictName.VALID


def test_an_unknown_profile_or_limit_is_unverifiable_not_wrong(blobs: DiskBlobStore) -> None:
    """A receipt of another version of the product may be right."""
    document = receipt(blobs)
    release = document.engine.release | {"engine": "99.0.0"}
    engine = _engine(document, release=release, identity=str(canonical_digest(release)), profile="99.0.0")
    verdict = verify(changed(document, **engine), blobs)
    assert (verdict.verdict, rules(verdict)) == (VerdictName.UNVERIFIABLE, {"profile-unknown"})
    values = document.limits.values | {"moon_phase": 3}
    limits = LimitsRecord(digest=str(canonical_digest(values)), values=values)
    verdict = verify(changed(document, limits=limits), blobs)
    assert (verdict.verdict, rules(verdict)) == (VerdictName.UNVERIFIABLE, {"limits-unknown"})


def test_a_failure_outside_the_stream_may_have_a_body_that_is_none(blobs: DiskBlobStore) -> None:
    """A status 500 with an error page: the page is kept, and does not contradict the outcome."""
    page = b"<html>Internal Server Error</html>\n"
    document = changed(
        receipt(blobs, page), outcome=Outcome.ENGINE_ERROR, rule="http-status", reason="expected 200, got 500"
    )
    assert verify(document, blobs).verdict is VerdictName.VALID
