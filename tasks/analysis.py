"""The analysis of a bundle as Prefect tasks.

A task run costs some 15 ms of CPU on both sides, so up to `QUESTION_TASKS` questions are a task run each (the best
timeline), and more go in shards. What a run holds open (stores, children, a worker) lives in this process and is
found by the run's id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from pipeline.loading import LoadedBundle, is_object, load_bundle, load_object, load_text
from pipeline.running import Run, open_run
from settings.load import load
from settings.values import Settings
from tasks.parameters import AnalysisOptions, BundleParameters

QUESTION_TASKS = 50
SHARD_QUESTIONS = 200

_prepared: ContextVar[tuple[Run, Callable[[], None]] | None] = ContextVar("prepared", default=None)
_open: dict[str, Run] = {}


@asynccontextmanager
async def prepared(run: Run, *, inside: Callable[[], None]) -> AsyncIterator[None]:
    """Let flows called in this context work on a run that the caller has already opened.

    `inside` is called when such a flow has begun, after Prefect has set up its own machinery.
    """
    token = _prepared.set((run, inside))
    try:
        yield
    finally:
        _prepared.reset(token)


@asynccontextmanager
async def opened(bundle: BundleParameters, options: AnalysisOptions) -> AsyncIterator[Run]:
    """The run that the caller prepared, or one opened from the settings of this host."""
    given = _prepared.get()
    if given is not None:
        run, inside = given
        inside()
        with _known(run):
            yield run
        return
    settings = load()
    settings = replace(settings, limits=settings.limits.narrowed(options.narrowed()))
    if options.release:
        settings = replace(settings, release=options.release)
    async with open_run(settings, await _load(bundle, settings), again=options.again) as own:
        with _known(own):
            yield own


async def _load(bundle: BundleParameters, settings: Settings) -> LoadedBundle:
    if bundle.text.strip():
        return load_text(bundle.text, settings)
    if is_object(bundle.path):
        return await load_object(bundle.path, settings)
    return load_bundle(Path(bundle.path), settings)


async def tag_flow_run(tags: list[str]) -> None:
    """Give the running flow run more tags."""
    if tags:
        async with get_client() as client:
            await client.update_flow_run(flow_run.id, tags={*flow_run.tags, *tags})


@contextmanager
def _known(run: Run) -> Iterator[None]:
    _open[run.id] = run
    try:
        yield
    finally:
        del _open[run.id]


@task(task_run_name="{question_id}", cache_policy=NO_CACHE)
async def answer_question(run_id: str, position: int, question_id: str) -> str:  # noqa: ARG001  # names the task run
    """One question to its outcome. A bad question is an outcome, not a failed task."""
    result = await _open[run_id].answer(position)
    return result.outcome.value


@task(task_run_name="questions {start}-{stop}", cache_policy=NO_CACHE)
async def answer_shard(run_id: str, start: int, stop: int) -> dict[str, int]:
    """The questions at positions `start` to `stop` (excluded); returns the count of each outcome."""
    counts = await _open[run_id].answer_range(range(start, stop))
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    get_run_logger().info("%s questions %d-%d: %s", run_id, start, stop, told)
    return counts
