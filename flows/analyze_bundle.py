"""The flow that analyses one evidence bundle. Its state says whether the run could work; the outcomes are its result.

Up to 50 questions are a task run each; more go in shards, a few in flight, so that Prefect never holds more than a
few hundred records of one run. The ledger is the system of record, Prefect only schedules and shows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from prefect import flow

from tasks.analysis import QUESTION_TASKS, SHARD_QUESTIONS, answer_question, answer_shard, opened, report_of
from tasks.parameters import AnalysisOptions, BundleParameters

SHARDS_IN_FLIGHT = 2


@flow(name="analyze-bundle", flow_run_name="{bundle.path}", persist_result=False)
async def analyze_bundle(bundle: BundleParameters, options: AnalysisOptions | None = None) -> dict[str, Any]:
    """Acquire, inspect, store, stage, ask, validate and record every question of a bundle.

    Args:
        bundle: Which evidence bundle.
        options: How to analyse it.

    Returns:
        The run's id, the count of each outcome and the report's path.
    """
    async with opened(bundle, options or AnalysisOptions()) as run:
        total = len(run.questions)
        if total <= QUESTION_TASKS:
            outcomes = await asyncio.gather(
                *(answer_question(run.id, position, asked.id) for position, asked in enumerate(run.questions))
            )
            counts = Counter(outcomes)
        else:
            counts = await _in_shards(run.id, total)
        return {"run": run.id, "outcomes": dict(counts), "report": report_of(run)}


async def _in_shards(run_id: str, total: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    in_flight = asyncio.Semaphore(SHARDS_IN_FLIGHT)

    async def shard(start: int) -> None:
        async with in_flight:
            counts.update(await answer_shard(run_id, start, min(start + SHARD_QUESTIONS, total)))

    await asyncio.gather(*(shard(start) for start in range(0, total, SHARD_QUESTIONS)))
    return counts
