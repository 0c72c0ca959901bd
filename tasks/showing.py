"""What a person sees of a run in Prefect's UI: progress, a summary, a table with the failures first, the report.

Prefect keeps artifacts in its database and shows them as Markdown with HTML in it, so they are few, bounded, and hold
nothing of evidence or models that is not escaped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.logging import get_run_logger

from contracts.outcome import Outcome
from contracts.printable import escaped_markdown, printable
from contracts.result import QuestionResult
from pipeline.running import Run

TABLE_ROWS = 500
PROGRESS_S = 1.0  # at most one update in this time: each is a request
_CELL = 200  # characters; the whole is in the ledger and in the report
_NEVER_SUBMITTED = frozenset({Outcome.REFUSED, Outcome.SOURCE_FAILED})


@asynccontextmanager
async def shown_progress(run: Run) -> AsyncIterator[None]:
    """Show how many questions of `run` are done, and log each that was never submitted, while the body works."""
    total, done, log = len(run.questions), 0, get_run_logger()
    artifact = await acreate_progress_artifact(0.0, description=f"{run.id}: 0 of {total} questions")
    assert isinstance(artifact, UUID)  # noqa: S101  # of an asynchronous caller it never is a coroutine

    def count(result: QuestionResult) -> None:
        nonlocal done
        done += 1
        if result.outcome in _NEVER_SUBMITTED:
            log.warning("%s question %s: %s by %s", run.id, printable(result.id), result.outcome.value, result.rule)

    async def update() -> None:
        told = f"{run.id}: {done} of {total} questions"
        try:
            await aupdate_progress_artifact(artifact, 100.0 * done / max(1, total), description=told)
        except Exception as error:  # whatever the server has, it is no reason to stop answering
            log.warning("%s: progress could not be shown (%s)", run.id, type(error).__name__)

    async def follow() -> None:
        shown = 0
        while True:
            await asyncio.sleep(PROGRESS_S)
            if shown != done:
                shown = done
                await update()

    run.tell(count)
    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
    await update()


async def show_results(run: Run, counts: Counter[str], report: str, report_url: str | None) -> None:
    """The summary, the table and, where reports are served, the link to this run's."""
    await acreate_markdown_artifact(summary(run, counts, report), key="summary", description=f"Run {run.id}")
    rows, left_out = table(run.results())
    more = f"; {left_out} more are in the ledger" if left_out else ""
    described = f"Run {run.id}: {len(rows)} questions, those that are not complete first{more}"
    await acreate_table_artifact(rows, key="questions", description=described)
    if report_url is not None:
        await acreate_link_artifact(report_url, link_text=f"Report of {run.id}", key="report")


def summary(run: Run, counts: Counter[str], report: str) -> str:
    """The outcome counts of a run and where its results are, in Markdown."""
    lines = [f"# {escaped_markdown(run.bundle_id)}", "", f"Run `{run.id}`, {len(run.questions)} questions.", ""]
    lines += ["| outcome | questions |", "|---|---|"]
    lines += [f"| {outcome} | {count} |" for outcome, count in sorted(counts.items())]
    lines += ["", f"Report: {escaped_markdown(report)}", ""]
    lines += [f"Results: `./mosaic results {run.id}`. Receipts: `./mosaic receipts list --run {run.id}`."]
    return "\n".join(lines)


def table(results: Iterable[QuestionResult]) -> tuple[list[dict[str, Any]], int]:
    """At most TABLE_ROWS rows, those that are not complete first, and how many questions were left out."""
    failures: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    total = 0
    for result in results:
        total += 1
        kind = answers if result.outcome.is_answer else failures
        if len(kind) < TABLE_ROWS:
            kind.append(dict(_cells(result)))
    rows = (failures + answers)[:TABLE_ROWS]
    return rows, total - len(rows)


def _cells(result: QuestionResult) -> Iterator[tuple[str, Any]]:
    yield "question", _cell(result.id)
    yield "outcome", result.outcome.value
    yield "answer or rule", _cell(result.answer if result.answer is not None else result.rule or "")
    yield "reason", _cell(result.reason or "")
    yield "seconds", round(result.seconds, 2)
    yield "receipt", result.receipt or ""


def _cell(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _CELL else f"{shown[:_CELL]}…"
