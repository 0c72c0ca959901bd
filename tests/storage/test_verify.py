"""Verification from the store alone: each tampering is named, and what is missing is not called wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.digest import Digest, canonical_digest
from contracts.limits import Limits
from contracts.locator import BlobSource, Locator, S3Source, locator_digest
from contracts.outcome import Outcome
from contracts.receipt import LimitsRecord, Receipt, UsageRecord, receipt_id
from storage.disk_blobs import DiskBlobStore
from storage.verify import VerdictName, verify_receipt
from tests.contracts.wire_chunks import DONE, chunk
from tests.receipt_samples import (
    COMPLETE,
    CUT_SHORT,
    DERIVED,
    IMAGE,
    LENGTH,
    ORIGINAL,
    changed,
    draft,
    receipt,
)
from tests.storage.verifying import rules, verify, with_answer, with_question


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store."""
    return DiskBlobStore(tmp_path)


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


def _located(locator: Locator) -> dict[str, Any]:
    return {"locator": locator.to_json(), "locator_digest": str(locator_digest(locator))}


def _engine(document: Receipt, **values: Any) -> dict[str, Any]:
    return {"engine": msgspec.structs.replace(document.engine, **values)}


OTHER = str(Digest.of(b"other"))


TAMPERINGS: dict[str, tuple[str, Callable[[Receipt], dict[str, Any]]]] = {
    "a locator": ("locator-digest", lambda r: _part(r, 0, locator={"kind": "file", "path": "b.png"})),
    "a locator's digest": ("locator-digest", lambda r: _part(r, 0, locator_digest=OTHER)),
    "the bytes that a locator names": ("locator-blob", lambda r: _part(r, 0, **_located(BlobSource(Digest(64 * "0"))))),
    "that it was acquired": ("acquisition-failed", lambda r: _part(r, 0, acquisition={"failure": {"rule": "x"}})),
    "what was acquired": ("acquisition-digest", lambda r: _part(r, 0, acquisition={"digest": OTHER})),
    "the original": ("original", lambda r: _part(r, 2, original=str(Digest.of(IMAGE)))),
    "an original without derivation": ("original", lambda r: _part(r, 0, original=str(Digest.of(ORIGINAL)))),
    "a text": ("question-parts", lambda r: _part(r, 1, text="How many squares?")),
    "the question": (
        "question-digest",
        lambda r: {"question": r.question | {"temperature": "1"} if r.question else {}},
    ),
    "the question's digest": ("question-digest", lambda _: {"question_digest": OTHER}),
    "the question's parts": ("question-parts", lambda r: with_question(r, parts=[])),
    "the question's form": ("question-form", lambda r: with_question(r, ordering_form="one-message")),
    "the question's budget": ("question-budget", lambda r: with_question(r, max_output_tokens=65)),
    "the question's answer form": ("question-schema", lambda r: with_question(r, answer_schema={"type": "string"})),
    "the identity": ("identity", lambda r: _engine(r, identity=OTHER)),
    "the release": ("identity", lambda r: _engine(r, release=r.engine.release | {"context_tokens": 4})),
    "the profile": ("release", lambda r: _engine(r, profile="0.9.2")),
    "whether it is the calibration model": ("release", lambda r: _engine(r, calibration_model=False)),
    "the limits": ("limits-digest", lambda r: {"limits": LimitsRecord(digest=OTHER, values=r.limits.values)}),
    "the answer": ("answer-digest", lambda r: with_answer(r, text_digest=OTHER)),
    "the finish reason": ("answer-finish", lambda r: with_answer(r, finish_reason="length")),
    "the usage": (
        "answer-usage",
        lambda r: with_answer(r, usage=UsageRecord(prompt_tokens=5, completion_tokens=2, total_tokens=7)),
    ),
    "the usage is gone": ("answer-usage", lambda r: with_answer(r, usage=None)),
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


def test_an_original_may_come_from_a_bucket_or_the_store(blobs: DiskBlobStore) -> None:
    """A locator of any kind is held to its own digest, and one that names bytes to the bytes that were used."""
    document = receipt(blobs)
    artifact = document.parts[0].artifact
    assert artifact is not None
    for source in (S3Source("evidence", "a.png", "v1"), BlobSource(Digest.parse(artifact.digest))):
        assert verify(changed(document, **_part(document, 0, **_located(source))), blobs).verdict is VerdictName.VALID


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


def test_limits_that_bound_nothing_are_wrong_not_unknown(blobs: DiskBlobStore) -> None:
    """A fraction of an event is no limit of any version."""
    document = receipt(blobs)
    values = document.limits.values | {"labels": 1.5}
    limits = LimitsRecord(digest=str(canonical_digest(values)), values=values)
    verdict = verify(changed(document, limits=limits), blobs)
    assert (verdict.verdict, rules(verdict)) == (VerdictName.INVALID, {"limits-value"})
