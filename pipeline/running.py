"""A run of one bundle: open everything, answer its questions overlapped and bounded, close whatever happens.

While one question is answered the next are fetched and decoded. How many are in work at a time is bounded, so that
a million questions hold as much memory and disk as twenty.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from contracts.errors import StorageError
from contracts.question import TextPart
from contracts.result import QuestionResult, ResultEngine
from pipeline.acquiring import repeated_urls
from pipeline.answering import Answerer
from pipeline.loading import LoadedBundle
from pipeline.notes import RunFacts
from pipeline.report import write_report
from pipeline.steps import in_thread, to_the_end
from pipeline.workshop import Workshop, open_workshop
from settings.values import Settings
from storage.ending import finish_run
from storage.runs import RunStart

OnResult = Callable[[QuestionResult], None]


class Run:
    """An open run. `answer` may be called for any position, in any order, many at a time."""

    def __init__(self, loaded: LoadedBundle, facts: RunFacts, *, again: bool) -> None:
        shop = facts.shop
        self.id = facts.run
        self.bundle_id = loaded.bundle.id
        self.questions = loaded.bundle.questions
        self.settings = shop.settings
        release = shop.release
        self._engine = ResultEngine(release.name, str(release.identity()), release.calibration_model)
        self._shop = shop
        self._quarantine = shop.storage.quarantine / facts.run
        repeated = repeated_urls(self.questions) if shop.settings.fetch_dedupe else frozenset()
        self._answerer = Answerer(
            facts, folder=loaded.folder, quarantine=self._quarantine, again=again, repeated=repeated
        )
        self._in_work = asyncio.Semaphore(shop.settings.lookahead_questions + shop.settings.worker_slots)
        self._answering: set[asyncio.Task[QuestionResult]] = set()
        self._is_ending = False
        self._on_result: list[OnResult] = []

    def __repr__(self) -> str:
        return f"<Run {self.id} of {len(self.questions)} questions>"

    def tell(self, listener: OnResult) -> None:
        """Call `listener` with every result as it comes."""
        self._on_result.append(listener)

    async def answer(self, position: int) -> QuestionResult:
        """The question at `position` (from 0) brought to its one outcome."""
        async with self._in_work:
            if self._is_ending:
                raise asyncio.CancelledError
            answering = asyncio.create_task(self._answerer.answer(self.questions[position]))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
            result = await answering
        for listener in self._on_result:
            listener(result)
        return result

    async def answer_range(self, positions: Iterable[int]) -> dict[str, int]:
        """One shard: answer the questions at `positions` and count the outcomes.

        As many tasks exist as may be in work, however long the shard is.
        """
        counts: dict[str, int] = {}
        waiting = iter(positions)

        async def work() -> None:
            for position in waiting:
                outcome = (await self.answer(position)).outcome.value
                counts[outcome] = counts.get(outcome, 0) + 1

        settings = self._shop.settings
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(settings.lookahead_questions + settings.worker_slots):
                    group.create_task(work())
        except* StorageError as failed:  # the ledger or the disk: the same for all of them
            raise failed.exceptions[0] from None
        return counts

    def report(self) -> Path:
        """Write the report of the results so far; returns its path. Raises StorageError."""
        texts = {
            asked.id: " … ".join(part.text for part in asked.parts if isinstance(part, TextPart))
            for asked in self.questions
        }
        return write_report(self.settings.reports, self.id, self.results(), title=self.bundle_id, asked=texts)

    def results(self) -> Iterator[QuestionResult]:
        """The results so far, in the bundle's order."""
        return self._shop.storage.runs.results(self.id)

    def open(self, loaded: LoadedBundle) -> None:
        """Write the run and its questions, then make its quarantine."""
        self._shop.storage.runs.start(
            RunStart(
                id=self.id,
                bundle_id=loaded.bundle.id,
                bundle_digest=loaded.digest,
                tenant=self._shop.settings.tenant,
                engine=self._engine,
                questions=[(question.id, question.labels) for question in self.questions],
            ),
            time.time(),
        )
        self._quarantine.mkdir(parents=True, mode=0o700)

    async def settle(self) -> None:
        """Cancel what is still in work and wait until it is recorded. Who asked for it may be gone: a gather that is
        canceled does not wait for the rest of its tasks."""
        self._is_ending = True
        for answering in self._answering:
            answering.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def close(self) -> None:
        """Close what is open, say of every question that was not tried that it was canceled, and end the run."""
        storage = self._shop.storage
        with suppress(OSError):
            self._quarantine.rmdir()
        run = storage.runs.get(self.id, tenant=self.settings.tenant)
        with storage.ledger.write() as tx:
            finish_run(tx, run, time.time())


@asynccontextmanager
async def open_run(settings: Settings, loaded: LoadedBundle, *, again: bool) -> AsyncIterator[Run]:
    """A run, closed at the end of the block also when it is canceled.

    `again` asks the engine, and sources that failed for good, also where the ledger already has their answer. Raises
    what `open_workshop` raises.
    """
    async with open_workshop(settings, loaded.limits) as shop:
        await in_thread(_collect_the_dead, shop)
        run_id = f"run-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
        run = Run(loaded, RunFacts(run_id, loaded.bundle.id, loaded.digest, shop), again=again)
        await in_thread(run.open, loaded)
        try:
            yield run
        finally:
            await to_the_end(_end(run))


async def _end(run: Run) -> None:
    await run.settle()
    await in_thread(run.close)


def _collect_the_dead(shop: Workshop) -> None:
    """Staged files of processes that died stay nobody's for no longer than until the next run."""
    shop.storage.staging.reconcile(time.time())
