"""The way of one question: acquire, inspect, store, stage, submit, validate, record.

Whatever happens on the way becomes one outcome with the rule that made it, and a receipt. Nothing is raised but a
cancellation, and that only after it was recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

from contracts.answer import check_answer, check_schema
from contracts.bundle import BundleQuestion
from contracts.errors import ContractRefused, EvidenceError, WorkerUnavailable
from contracts.outcome import Outcome
from contracts.question import Part, Question, TextPart
from contracts.receipt import receipt_id
from contracts.request import ChatRequest, build_request
from contracts.result import QuestionResult
from pipeline.acquiring import ByteBudget, acquire_part
from pipeline.holding import staged, while_renewing
from pipeline.notes import ABANDONED, Notes, RunFacts
from pipeline.steps import in_thread, to_the_end

_log = logging.getLogger(__name__)


class Answerer:
    """Answers questions of one run. `folder` is the bundle's, `quarantine` the run's own; `again` asks the engine
    also where the ledger has the answer."""

    def __init__(self, facts: RunFacts, *, folder: Path, quarantine: Path, again: bool) -> None:
        self._facts = facts
        self._shop = facts.shop
        self._folder = folder
        self._quarantine = quarantine
        self._again = again

    async def answer(self, asked: BundleQuestion) -> QuestionResult:
        """Bring one question to its one outcome."""
        notes = Notes(self._facts, asked, time.time())
        try:
            reused = await self._go(notes)
            if reused is not None:
                return reused
        except asyncio.CancelledError:
            notes.ended(Outcome.CANCELED, "canceled", "the run was canceled while this question was in work")
            await to_the_end(self._record(notes))
            raise
        except EvidenceError as error:
            notes.failed(error)
        except Exception as error:
            _log.exception("question %s of %s: a fault of ours", asked.id, self._facts.run)
            notes.ended(Outcome.UNAVAILABLE, "internal-fault", f"{type(error).__name__}; the log has the trace")
        return await to_the_end(self._record(notes))

    async def _go(self, notes: Notes) -> QuestionResult | None:
        """The numbered way of DESIGN §3. Returns a result only where the ledger had it."""
        self._check_asked(notes.asked)
        question = notes.question = await self._acquire(notes)
        self._shop.release.admit(question)
        request = self._request(question)
        reused = None if self._again else await in_thread(self._from_ledger, notes, request)
        if reused is not None:
            return reused
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
        return None

    def _check_asked(self, asked: BundleQuestion) -> None:
        """What can be refused before a byte is fetched."""
        release = self._shop.release.name
        if asked.release not in (None, release):
            raise ContractRefused("release", f"the question is for {asked.release}, this run serves {release}")
        if asked.answer_schema is not None:
            check_schema(asked.answer_schema, self._shop.limits)

    async def _acquire(self, notes: Notes) -> Question:
        """All parts in the bundle's order, so that the byte budget and the record are the same every time."""
        asked, parts, budget = notes.asked, list[Part](), ByteBudget(self._shop.limits)
        for index, part in enumerate(asked.parts):
            if isinstance(part, TextPart):
                parts.append(part)
                continue
            notes.acquired[index] = await acquire_part(
                self._shop, part, folder=self._folder, quarantine=self._quarantine, budget=budget
            )
            parts.append(notes.acquired[index].part)
        return Question(
            parts=tuple(parts),
            max_output_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            answer_schema=asked.answer_schema,
            ordering=asked.ordering,
        )

    def _request(self, question: Question) -> ChatRequest:
        """The request, whose paths are known before the files are staged: they are digests beneath one root."""
        staging = self._shop.storage.staging.root / self._shop.settings.tenant
        release = self._shop.release
        return build_request(
            question,
            profile=release.engine_profile(),
            route=release.route,
            staged_url=lambda artifact: (staging / artifact.staged_name).as_uri(),
            limits=self._shop.limits,
        )

    def _from_ledger(self, notes: Notes, request: ChatRequest) -> QuestionResult | None:
        """The answer that this identity already gave to this question, as a result of this run."""
        storage, tenant = self._shop.storage, self._shop.settings.tenant
        found = storage.receipts.find_answer(tenant, request.question_digest, self._shop.release.identity())
        if found is None:
            return None
        seconds = round(time.time() - notes.started_at, 3)
        labels = dict(notes.asked.labels)
        result = replace(found, id=notes.asked.id, labels=labels, seconds=seconds, from_ledger=True)
        storage.runs.record(self._facts.run, result)
        return result

    def _open(self, notes: Notes, request: ChatRequest) -> None:
        """The request's bytes and the attempt are durable before anything is sent."""
        self._shop.storage.blobs.put_bytes(request.body, expected=request.digest)
        notes.request = request
        self._open_attempt(notes)

    def _open_attempt(self, notes: Notes) -> None:
        now = time.time()
        self._shop.storage.receipts.open_attempt(notes.receipt(now), now)
        notes.is_open = True

    async def _submit(self, notes: Notes, request: ChatRequest) -> None:
        async with self._shop.workers.slot() as client:
            notes.sent = True
            try:
                got = await client.submit(request, request_id=notes.request_id)
            except WorkerUnavailable:
                notes.sent = False
                raise
        if notes.asked.answer_schema is not None:
            checked = check_answer(got, notes.asked.answer_schema, self._shop.limits)
            got = replace(checked.completion, structured=checked.structured)
        notes.submission = got
        notes.ended(got.outcome, got.rule, got.reason)

    async def _record(self, notes: Notes) -> QuestionResult:
        """One transaction: the attempt's end, its receipt and the question's result."""
        return await in_thread(self._write, notes)

    def _write(self, notes: Notes) -> QuestionResult:
        storage, got = self._shop.storage, notes.submission
        if not notes.is_open:
            ended = (notes.outcome, notes.rule, notes.reason)
            notes.ended(*ABANDONED)
            self._open_attempt(notes)
            notes.ended(*ended)
        if got is not None:
            storage.blobs.put_bytes(got.stream, expected=got.stream_digest)
        now = time.time()
        receipt = notes.receipt(now)
        result = QuestionResult.of_receipt(
            receipt,
            receipt_id(receipt.to_bytes()),
            text=None if got is None else (got.text or got.partial_text),
            structured=None if got is None else got.structured,
            seconds=round(now - notes.started_at, 3),
            labels=notes.asked.labels,
        )
        storage.receipts.append(receipt, result, now)
        return result
