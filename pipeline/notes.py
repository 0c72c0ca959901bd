"""What is known of one attempt so far, and the receipt that it makes.

The same notes make the draft that an open attempt keeps in the ledger (true if this process dies now) and the
receipt that closes it.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from msgspec import UNSET

from contracts.artifact import Modality
from contracts.bundle import BundleQuestion, MediaSource
from contracts.digest import Digest, canonical_digest
from contracts.errors import EvidenceError
from contracts.lease import Lease
from contracts.locator import locator_digest
from contracts.outcome import Outcome
from contracts.profile_errors import Again
from contracts.question import Question, TextPart
from contracts.receipt import (
    AnswerRecord,
    ArtifactRecord,
    AttemptRecord,
    BundleRecord,
    EngineRecord,
    LeaseRecord,
    LimitsRecord,
    PartRecord,
    PolicyRecord,
    Receipt,
    RequestRecord,
    StreamRecord,
    UsageRecord,
    exact,
    timestamp,
)
from contracts.records import AcquisitionRecord
from contracts.request import ChatRequest, question_document
from contracts.retry import Tried
from contracts.version import VERSION
from inference.client import Submission
from pipeline.acquiring import SHARED, AcquiredPart
from pipeline.remembering import REMEMBERED
from pipeline.reusing import FoundAnswer
from pipeline.workshop import Workshop
from storage.acquisitions import PartAcquisition

_KINDS: dict[Modality, Literal["image", "audio", "video"]] = {
    Modality.IMAGE: "image",
    Modality.AUDIO: "audio",
    Modality.VIDEO: "video",
}

ABANDONED = (Outcome.ABANDONED, "run-died", "the process died while this attempt was open")
"""The end of an attempt that nobody ended: what its draft says until something else is true."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What all attempts of a run share."""

    run: str
    bundle_id: str
    bundle_digest: Digest
    shop: Workshop


@dataclass(slots=True)
class Notes:
    """One attempt, as far as it came. `number` counts the tries of its question within the run, from 1.

    `records` are the acquisitions by part, had or not; those `told` are in the ledger with an earlier attempt.
    """

    facts: RunFacts
    asked: BundleQuestion
    started_at: float
    number: int = 1
    id: str = field(default_factory=lambda: f"attempt-{uuid.uuid4().hex}")
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    acquired: dict[int, AcquiredPart] = field(default_factory=dict)
    records: dict[int, PartAcquisition] = field(default_factory=dict)
    told: frozenset[int] = frozenset()
    question: Question | None = None
    request: ChatRequest | None = None
    reused: FoundAnswer | None = None
    sent: bool = False
    submission: Submission | None = None
    leases: tuple[Lease, ...] = ()
    is_open: bool = False
    outcome: Outcome = ABANDONED[0]
    rule: str | None = ABANDONED[1]
    reason: str | None = ABANDONED[2]

    def ended(self, outcome: Outcome, rule: str | None, reason: str | None) -> None:
        """The attempt's one outcome. What is unavailable was not answered, whatever had come by then."""
        self.outcome, self.rule, self.reason = outcome, rule, reason
        if outcome is Outcome.UNAVAILABLE:
            self.submission = None

    def tried(self) -> Tried:
        """The attempt as the retry policy sees it."""
        asked = self.question or self.asked
        error = self.submission.error if self.submission is not None else None
        return Tried(self.outcome, self.rule, asked.max_output_tokens, error.again if error else Again.NO)

    def again(self, now: float, max_tokens: int) -> Notes:
        """The next attempt of the same question: new ids, what was acquired, and a budget of `max_tokens`."""
        asked = None if self.question is None else replace(self.question, max_output_tokens=max_tokens)
        return Notes(
            self.facts,
            self.asked,
            now,
            self.number + 1,
            acquired=dict(self.acquired),
            records=dict(self.records),
            told=frozenset(self.records),
            question=asked,
        )

    def bare(self) -> None:
        """Forget what was found on the way: for the receipt that says that these notes could not be written."""
        self.acquired, self.records, self.question, self.request = {}, {}, None, None
        self.submission, self.reused = None, None

    def asked_for(self, index: int, record: AcquisitionRecord, max_bytes: int) -> None:
        """How part `index` was had, or not."""
        is_own = not {REMEMBERED, SHARED} & record.origin.keys()
        self.records[index] = PartAcquisition(index, max_bytes, record, is_own)

    def untold(self) -> list[PartAcquisition]:
        """The acquisitions that are this attempt's own."""
        return [each for index, each in sorted(self.records.items()) if index not in self.told]

    def failed(self, error: EvidenceError) -> None:
        """The outcome that `error` means."""
        self.ended(error.outcome, error.rule, error.reason)

    def draft(self, now: float) -> Receipt:
        """The receipt that is true if the process dies now."""
        reused, ended = self.reused, (self.outcome, self.rule, self.reason)
        self.reused = None
        self.ended(*ABANDONED)
        try:
            return self.receipt(now)
        finally:
            self.reused = reused
            self.ended(*ended)

    def receipt(self, now: float) -> Receipt:
        """The receipt of what is noted, finished at `now` (epoch seconds)."""
        facts, shop = self.facts, self.facts.shop
        asked, policy, request = self.question, shop.policy, self.request
        earlier = None if self.reused is None else self.reused.receipt
        return Receipt(
            product_version=VERSION,
            run=facts.run,
            bundle=BundleRecord(id=facts.bundle_id, digest=str(facts.bundle_digest)),
            question_id=self.asked.id,
            attempt=AttemptRecord(id=self.id, number=self.number, request_id=self.request_id),
            tenant=shop.settings.tenant,
            outcome=self.outcome,
            rule=self.rule,
            reason=self.reason,
            parts=tuple(self._part(index) for index in range(len(self.asked.parts))),
            question=question_document(asked, request.ordering_form) if asked and request else None,
            question_digest=str(request.question_digest) if request else None,
            request=earlier.request if earlier else self._request(),
            stream=earlier.stream if earlier else self._stream(),
            answer=earlier.answer if earlier else self._answer(),
            reused=str(self.reused.id) if self.reused else None,
            engine=_engine(shop),
            limits=LimitsRecord(digest=str(shop.limits.digest()), values=asdict(shop.limits)),
            policy=PolicyRecord(name=policy.name, digest=str(policy.digest())),
            leases=tuple(LeaseRecord(id=lease.id, fence=lease.fence) for lease in self.leases),
            layers=self._layers(),
            started_at=timestamp(self.started_at),
            finished_at=timestamp(now),
        )

    def _part(self, index: int) -> PartRecord:
        part, acquired = self.asked.parts[index], self.acquired.get(index)
        if isinstance(part, TextPart):
            return PartRecord(index=index, kind="text", text=part.text)
        kind, known = _KINDS[part.modality], self.records.get(index)
        acquisition = None if known is None else exact(known.record.to_json())
        if acquired is None:
            locator = part.source
            return PartRecord(
                index=index,
                kind=kind,
                locator=locator.to_json(),
                locator_digest=str(locator_digest(locator)),
                acquisition=acquisition,
                provenance=_provenance(part),
            )
        seen = acquired.part
        return PartRecord(
            index=index,
            kind=kind,
            artifact=ArtifactRecord(
                digest=str(seen.artifact.digest),
                size_bytes=seen.artifact.size_bytes,
                media_type=seen.artifact.media_type,
                modality=seen.artifact.modality,
            ),
            original=None if acquired.original == seen.artifact.digest else str(acquired.original),
            locator=exact(seen.locator.to_json()),
            locator_digest=str(locator_digest(seen.locator)),
            acquisition=acquisition,
            inspection=exact(acquired.inspection.findings),
            provenance=_provenance(part),
        )

    def _request(self) -> RequestRecord | None:
        """The request, if it was sent; a draft says that it may have been."""
        request = self.request
        if request is None or not (self.sent or self.outcome is Outcome.ABANDONED):
            return None
        return RequestRecord(
            digest=str(request.digest),
            size_bytes=len(request.body),
            ordering_form=request.ordering_form.value,
            requested_not_honoured=request.not_honoured or UNSET,
            staging="flat" if self.facts.shop.settings.staging_layout == "flat" else UNSET,
        )

    def _stream(self) -> StreamRecord | None:
        got = self.submission
        if got is None or (not got.stream and got.outcome is not Outcome.INCOMPLETE):
            return None  # a status or a header ended it: no stream began
        return StreamRecord(digest=str(got.stream_digest), size_bytes=len(got.stream), events=got.events)

    def _answer(self) -> AnswerRecord | None:
        got, request = self.submission, self.request
        if got is None or got.text is None or request is None:
            return None
        schema = self.asked.answer_schema
        usage = None if got.usage is None else UsageRecord(**got.usage.to_json())
        return AnswerRecord(
            text_digest=str(Digest.of(got.text.encode())),
            finish_reason=got.finish_reason,
            usage=usage,
            max_tokens=request.max_tokens,
            schema_digest=None if schema is None else str(canonical_digest(schema)),
        )

    def _layers(self) -> tuple[str, ...]:
        """The isolation that was in force around every part's decoder."""
        layers = [acquired.inspection.layers for acquired in self.acquired.values()]
        return tuple(name for name in layers[0] if all(name in other for other in layers)) if layers else ()


def _provenance(source: MediaSource) -> dict[str, str] | None:
    """What the bundle noted of where the medium comes from, never interpreted."""
    noted = {"caption": source.caption, "collected_at": source.collected_at, "collector": source.collector}
    return {name: value for name, value in noted.items() if value is not None} or None


def _engine(shop: Workshop) -> EngineRecord:
    release = shop.release
    return EngineRecord(
        release=release.to_json(),
        identity=str(release.identity()),
        profile=release.engine,
        route=release.route,
        calibration_model=release.calibration_model,
    )
