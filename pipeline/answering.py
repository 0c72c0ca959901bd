"""The way of one question: acquire, inspect, store, stage, submit, validate, record.

Whatever happens on the way becomes one outcome with the rule that made it, and a receipt. Where the bundle permits, a
question is tried again as another attempt with its own receipt; the last one's result is the question's. Nothing is
raised but a cancellation, and that only after it was recorded.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from contracts.answer import check_answer, check_schema
from contracts.bundle import BundleQuestion
from contracts.errors import ContractRefused, EvidenceError, LeaseError, StorageError, WorkerUnavailable
from contracts.ordering import ordering_form
from contracts.outcome import Outcome
from contracts.parameters import judge_parameters
from contracts.question import Part, Question, TextPart
from contracts.receipt import receipt_id
from contracts.request import ChatRequest, build_request
from contracts.result import QuestionResult
from contracts.retry import RetryChangedBudget, Stop, Tried, next_step, retry_delay_s
from pipeline.acquiring import Acquirer
from pipeline.holding import staged, while_renewing
from pipeline.media_budget import MediaBudget
from pipeline.notes import Notes, RunFacts
from pipeline.remembering import FailureMemory
from pipeline.reusing import find_answer
from pipeline.steps import in_thread, to_the_end

_log = logging.getLogger(__name__)


class Answerer:
    """Answers questions of one run. `folder` is the bundle's, `quarantine` the run's own; `again` asks the engine
    also where the ledger has the answer, and sources also where it has that they failed for good. Parts that name one
    of the `repeated` URLs share its fetch. `jitter` (0 to 1) spreads the pauses before later tries."""

    def __init__(
        self,
        facts: RunFacts,
        *,
        folder: Path | None,
        quarantine: Path,
        again: bool,
        repeated: frozenset[str] = frozenset(),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._facts = facts
        self._shop = facts.shop
        self._acquirer = Acquirer(
            facts.shop,
            folder=folder,
            quarantine=quarantine,
            repeated=repeated,
            memory=None if again else FailureMemory(facts.shop, facts.bundle_digest),
        )
        self._again = again
        self._jitter = jitter

    async def answer(self, asked: BundleQuestion) -> QuestionResult:
        """Bring one question to its one outcome, in as many attempts as its bundle permits and the policy advises.

        Between two attempts none is open: a cancellation then leaves the question with the last one's result.
        """
        limits, profile = self._shop.limits, self._shop.release.engine_profile()
        notes, history = Notes(self._facts, asked, time.time()), tuple[Tried, ...]()
        while True:
            result = await self._attempt(notes)
            last = notes.tried()
            step = next_step(history, last, asked.retry, profile, limits.output_tokens)
            if isinstance(step, Stop):
                return result
            history = (*history, last)
            _log.info("attempt %s of question %s ended %s", notes.number, asked.id, last.outcome.value)
            await asyncio.sleep(retry_delay_s(len(history), self._jitter(), limits.retry_delay_s))
            notes = notes.again(
                time.time(), step.max_tokens if isinstance(step, RetryChangedBudget) else last.max_tokens
            )

    async def _attempt(self, notes: Notes) -> QuestionResult:
        """One attempt, recorded."""
        try:
            await self._go(notes)
        except asyncio.CancelledError:
            notes.ended(Outcome.CANCELED, "canceled", "the run was canceled while this question was in work")
            await to_the_end(self._record(notes))
            raise
        except EvidenceError as error:
            notes.failed(error)
        except Exception as error:
            self._fault(notes, error)
        return await to_the_end(self._record(notes))

    def _fault(self, notes: Notes, error: Exception) -> None:
        _log.exception("question %s of %s: a fault of ours", notes.asked.id, self._facts.run)
        notes.ended(Outcome.UNAVAILABLE, "internal-fault", f"{type(error).__name__}; the log has the trace")

    async def _go(self, notes: Notes) -> None:
        """The way of one question, to the end that its notes then have."""
        self._check_asked(notes.asked)
        question = notes.question = notes.question or await self._acquire(notes)
        self._shop.release.admit(question)
        request = self._request(question)
        notes.reused = None if self._again else await in_thread(find_answer, self._shop, request)
        if notes.reused is not None:
            earlier = notes.reused.receipt
            notes.request = request
            notes.ended(earlier.outcome, earlier.rule, earlier.reason)
            return
        await in_thread(self._open, notes, request)
        async with staged(
            self._shop.storage.staging,
            [part.artifact for part in question.media],
            tenant=self._shop.settings.tenant,
            holder=f"{self._facts.run}/{notes.id}",
            ttl_s=self._shop.limits.lease_ttl_s,
        ) as hold:
            notes.leases = hold.leases
            await while_renewing(hold, self._submit(notes, request))

    def _check_asked(self, asked: BundleQuestion) -> None:
        """What can be refused before a byte is fetched."""
        release = self._shop.release
        if asked.release not in (None, release.name):
            raise ContractRefused("release", f"the question is for {asked.release}, this run serves {release.name}")
        for part in asked.media:
            if part.modality not in release.modalities:
                accepted = ", ".join(modality.value for modality in release.modalities)
                raise ContractRefused("modality", f"{release.name} accepts {accepted}, not {part.modality.value}")
        judge_parameters(asked.parameters, release.engine_profile(), asked.not_honoured)
        kinds = tuple("text" if isinstance(part, TextPart) else part.modality.value for part in asked.parts)
        ordering_form(kinds, release.engine_profile(), asked.ordering)
        if asked.answer_schema is not None:
            check_schema(asked.answer_schema, self._shop.limits)

    async def _acquire(self, notes: Notes) -> Question:
        """All parts in the bundle's order, so that the byte budget and the record are the same every time."""
        asked, parts, budget = notes.asked, list[Part](), MediaBudget(self._shop.limits)
        for index, part in enumerate(asked.parts):
            if isinstance(part, TextPart):
                parts.append(part)
                continue
            notes.acquired[index] = await self._acquirer.acquire(
                part, name=f"{notes.id}/{index}", budget=budget, noted=partial(notes.asked_for, index)
            )
            parts.append(notes.acquired[index].part)
        return Question(
            parts=tuple(parts),
            max_output_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            answer_schema=asked.answer_schema,
            ordering=asked.ordering,
            parameters=asked.parameters,
            not_honoured=asked.not_honoured,
        )

    def _request(self, question: Question) -> ChatRequest:
        """The request, whose paths are known before the files are staged: they are digests beneath one root."""
        staging = self._shop.storage.staging.folder(self._shop.settings.tenant)
        release = self._shop.release
        return build_request(
            question,
            profile=release.engine_profile(),
            route=release.route,
            staged_url=lambda artifact: (staging / artifact.staged_name).as_uri(),
            limits=self._shop.limits,
        )

    def _open(self, notes: Notes, request: ChatRequest) -> None:
        """The request's bytes and the attempt are durable before anything is sent."""
        self._shop.storage.blobs.put(request.body, expected=request.digest)
        notes.request = request
        self._open_attempt(notes)

    def _open_attempt(self, notes: Notes) -> None:
        now = time.time()
        self._shop.storage.receipts.open_attempt(notes.draft(now), now, notes.untold())
        notes.is_open = True

    async def _submit(self, notes: Notes, request: ChatRequest) -> None:
        async with self._shop.workers.slot() as client:
            notes.sent = True
            try:
                got = await client.submit(request, request_id=notes.request_id)
            except WorkerUnavailable:
                notes.sent = False
                raise
        notes.submission = got
        if notes.asked.answer_schema is not None:
            checked = await in_thread(check_answer, got, notes.asked.answer_schema, self._shop.limits)
            notes.submission = got = replace(checked.completion, structured=checked.structured)
        notes.ended(got.outcome, got.rule, got.reason)

    async def _record(self, notes: Notes) -> QuestionResult:
        """One transaction: the attempt's end, its receipt and the question's result.

        A question whose notes cannot be written (a fault of ours, or of a child that lied within its bounds) still
        gets a receipt that says so; an answer whose evidence was taken away meanwhile is none, and gets one that says
        that. Raises StorageError where the disk or the ledger fails.
        """
        try:
            return await in_thread(self._write, notes)
        except StorageError:
            raise
        except LeaseError as error:
            notes.failed(error)
            return await in_thread(self._write, notes)
        except Exception as error:
            notes.bare()
            self._fault(notes, error)
            return await in_thread(self._write, notes)

    def _write(self, notes: Notes) -> QuestionResult:
        storage, got, reused = self._shop.storage, notes.submission, notes.reused
        if not notes.is_open:
            self._open_attempt(notes)
        text, structured = None, None
        if got is not None:
            storage.blobs.put(got.stream, expected=got.stream_digest)
            text, structured = got.text if got.text is not None else got.partial_text, got.structured
        elif reused is not None:
            text, structured = reused.text, reused.structured
        now = time.time()
        receipt = notes.receipt(now)
        result = QuestionResult.of_receipt(
            receipt,
            receipt_id(receipt.to_bytes()),
            text=text,
            structured=structured,
            seconds=round(now - notes.started_at, 3),
            labels=notes.asked.labels,
        )
        storage.receipts.append(receipt, result, now)
        return result
