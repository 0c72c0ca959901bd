"""A real attempt for tests of receipts: real blobs, a request built by the builder, a stream in the engine's form."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import msgspec

from contracts.artifact import Artifact, Modality
from contracts.chunk import Usage
from contracts.completion import Completion, check_stream
from contracts.digest import Digest, wire_json
from contracts.limits import Limits
from contracts.locator import Derived, FileSource, Locator, locator_digest
from contracts.outcome import Outcome
from contracts.ports import BlobStore
from contracts.profile import profile
from contracts.question import MediaPart, Question, TextPart
from contracts.receipt import (
    AnswerRecord,
    ArtifactRecord,
    AttemptRecord,
    BundleRecord,
    EngineRecord,
    LeaseRecord,
    LimitsRecord,
    PartRecord,
    Receipt,
    RequestRecord,
    StreamRecord,
    UsageRecord,
    receipt_id,
    timestamp,
)
from contracts.request import ChatRequest, build_request, question_document
from contracts.result import QuestionResult, ResultEngine
from tests.contracts.releases import embedded_release
from tests.contracts.wire_chunks import DONE, ROUTE, USAGE, chunk

TENANT = "acme"
NOW = 1_780_322_518.25
ORIGINAL = b"the bytes as acquired"
IMAGE = b"\x89PNG pretended"
DERIVED = b"GIF89a pretended"
LIMITS = Limits()
RELEASE = embedded_release(route=ROUTE)
ENGINE = ResultEngine("calibration", str(RELEASE.identity()), calibration_model=True)
LEASES = (LeaseRecord(id="l1", fence=1), LeaseRecord(id="l2", fence=2))
COMPLETE = chunk("Two ") + chunk("circles", finish="stop", usage=USAGE) + DONE
LENGTH = chunk("Two ") + chunk("ci", finish="length", usage=USAGE) + DONE
CUT_SHORT = chunk("Two ") + chunk("ci")


def artifact(data: bytes, media_type: str = "image/png", modality: Modality = Modality.IMAGE) -> Artifact:
    """The artifact that `data` is said to be."""
    return Artifact(Digest.of(data), len(data), media_type, modality)


def question(answer_schema: dict[str, Any] | None = None) -> Question:
    """An image, a text, and a video that was derived."""
    derived = Derived(Digest.of(ORIGINAL), {"name": "frames", "frames": 8})
    return Question(
        parts=(
            MediaPart(artifact(IMAGE), FileSource("a.png")),
            TextPart("How many circles?"),
            MediaPart(artifact(DERIVED, "image/gif", Modality.VIDEO), derived),
        ),
        max_output_tokens=64,
        answer_schema=answer_schema,
    )


def request_for(asked: Question) -> ChatRequest:
    """The request as sent: staged file paths."""
    engine = profile("0.9.5")

    def staged(item: Artifact) -> str:
        return f"file:///srv/evidence/acme/{item.staged_name}"

    return build_request(asked, profile=engine, route=ROUTE, staged_url=staged, limits=LIMITS)


def receipt(
    blobs: BlobStore,
    wire: bytes = COMPLETE,
    *,
    run: str = "run-1",
    question_id: str = "q1",
    attempt: str = "attempt-1",
    number: int = 1,
    asked: Question | None = None,
) -> Receipt:
    """Commit the blobs of an attempt that ended as `wire` says, and write its receipt.

    Media of another question than ours are committed by who asks it."""
    asked = asked or question()
    request = request_for(asked)
    for data in (ORIGINAL, IMAGE, DERIVED, request.body, wire):
        blobs.put(data)
    engine = profile("0.9.5")
    completion = check_stream([wire], profile=engine, route=ROUTE, max_tokens=64, limits=LIMITS)
    begun = draft(run=run, question_id=question_id, attempt=attempt, number=number)
    return changed(
        begun,
        outcome=completion.outcome,
        rule=completion.rule,
        reason=completion.reason,
        parts=_parts(asked),
        question=question_document(asked, request.ordering_form),
        question_digest=str(request.question_digest),
        request=RequestRecord(
            digest=str(request.digest), size_bytes=len(request.body), ordering_form=request.ordering_form.value
        ),
        stream=StreamRecord(
            digest=str(completion.stream_digest), size_bytes=completion.wire_bytes, events=completion.events
        ),
        answer=None if completion.text is None else _answer(completion, completion.text),
        leases=LEASES,
        layers=("no-network",),
        finished_at=timestamp(NOW),
    )


def draft(*, run: str = "run-1", question_id: str = "q1", attempt: str = "attempt-1", number: int = 1) -> Receipt:
    """The receipt that is true if the process dies right after the attempt's start."""
    return Receipt(
        product_version="0.1.0",
        run=run,
        bundle=BundleRecord(id="b1", digest=str(Digest.of(b"bundle"))),
        question_id=question_id,
        attempt=AttemptRecord(id=attempt, number=number, request_id="r1"),
        tenant=TENANT,
        outcome=Outcome.ABANDONED,
        rule="process-died",
        reason="the process died before the attempt ended",
        parts=(),
        question=None,
        question_digest=None,
        request=None,
        stream=None,
        answer=None,
        engine=engine_record(),
        limits=limits_record(),
        policy=None,
        leases=(),
        layers=(),
        started_at=timestamp(NOW - 1),
        finished_at=timestamp(NOW - 1),
    )


def changed(document: Receipt, **values: Any) -> Receipt:
    """The receipt with other values."""
    return msgspec.structs.replace(document, **values)


def result_of(document: Receipt, text: str | None = "Two circles") -> QuestionResult:
    """The result that belongs to a receipt."""
    identity = receipt_id(document.to_bytes())
    return QuestionResult.of_receipt(document, identity, text=text, seconds=1.5, labels={"expected": "2"})


def engine_record() -> EngineRecord:
    """The release, pinned."""
    return EngineRecord(
        release=json.loads(wire_json(RELEASE.to_json())),
        identity=str(RELEASE.identity()),
        profile="0.9.5",
        route=ROUTE,
        calibration_model=True,
    )


def limits_record() -> LimitsRecord:
    """The default limits."""
    return LimitsRecord(digest=str(LIMITS.digest()), values=asdict(LIMITS))


def _answer(completion: Completion, text: str) -> AnswerRecord:
    return AnswerRecord(
        text_digest=str(Digest.of(text.encode())),
        finish_reason=completion.finish_reason,
        usage=_usage(completion.usage),
        max_tokens=64,
        schema_digest=None,
    )


def _usage(usage: Usage | None) -> UsageRecord | None:
    return None if usage is None else UsageRecord(**usage.to_json())


def _parts(asked: Question) -> tuple[PartRecord, ...]:
    return tuple(_part(index, part) for index, part in enumerate(asked.parts))


def _part(index: int, part: MediaPart | TextPart) -> PartRecord:
    if isinstance(part, TextPart):
        return PartRecord(index=index, kind="text", text=part.text)
    locator: Locator = part.locator
    return PartRecord(
        index=index,
        kind=part.artifact.modality.value,
        artifact=msgspec.convert(part.artifact.to_json(), ArtifactRecord),
        original=str(locator.parent) if isinstance(locator, Derived) else None,
        locator=locator.to_json(),
        locator_digest=str(locator_digest(locator)),
        acquisition={"digest": str(Digest.of(ORIGINAL) if isinstance(locator, Derived) else part.artifact.digest)},
    )
