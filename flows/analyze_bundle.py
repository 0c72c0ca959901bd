"""The flow that analyses one evidence bundle. Its state says whether the run could work; the outcomes are its result.

Up to 50 questions are a task run each; more go in shards, a few in flight, so that Prefect never holds more than a
few hundred records of one run. The ledger is the system of record, Prefect only schedules and shows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Failed

from tasks.analysis import (
    QUESTION_TASKS,
    SHARD_QUESTIONS,
    answer_question,
    answer_shard,
    opened,
    tag_flow_run,
)
from tasks.parameters import AnalysisOptions, BundleParameters
from tasks.showing import show_results, shown_progress

SHARDS_IN_FLIGHT = 2
MAX_TASK_RUNS = 1_000  # of one flow run: Prefect loses records of bursts that are larger


def _named() -> str:
    bundle = flow_run.parameters["bundle"]
    given = bundle if isinstance(bundle, BundleParameters) else BundleParameters.model_construct(**bundle)
    return given.name


@flow(name="analyze-bundle", flow_run_name=_named, persist_result=False)
async def analyze_bundle(
    bundle: BundleParameters, options: AnalysisOptions | None = None
) -> dict[str, Any] | State[Any]:
    """Acquire, inspect, store, stage, ask, validate and record every question of a bundle.

    Args:
        bundle: Which evidence bundle.
        options: How to analyse it.

    Returns:
        The run's id, the count of each outcome and the report's path. The flow run fails where it could not work, and
        where fewer questions are complete than the options ask for.
    """
    chosen = options or AnalysisOptions()
    await tag_flow_run(chosen.tags)
    async with opened(bundle, chosen) as run:
        async with shown_progress(run):
            counts = await _answered(run.id, [question.id for question in run.questions])
        report = str(run.report())
        await show_results(run, counts, report, run.settings.report_url(run.id))
    complete, total = counts["complete"], len(run.questions)
    told = f"run {run.id}: {complete} of {total} questions are complete"
    if complete < chosen.complete_share * total:
        return Failed(message=f"{told}, fewer than the share {chosen.complete_share:g}")
    return {"run": run.id, "outcomes": dict(counts), "report": report}


async def _answered(run_id: str, questions: list[str]) -> Counter[str]:
    if len(questions) <= QUESTION_TASKS:
        each = (answer_question(run_id, position, asked) for position, asked in enumerate(questions))
        return Counter(await asyncio.gather(*each))
    counts: Counter[str] = Counter()
    in_flight = asyncio.Semaphore(SHARDS_IN_FLIGHT)
    size = max(SHARD_QUESTIONS, -(-len(questions) // MAX_TASK_RUNS))

    async def shard(start: int) -> None:
        async with in_flight:
            counts.update(await answer_shard(run_id, start, min(start + size, len(questions))))

    await asyncio.gather(*(shard(start) for start in range(0, len(questions), size)))
    return counts
