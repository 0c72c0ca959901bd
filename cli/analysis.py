"""What `run` and `demo` share: a bundle through the pipeline, with or without Prefect, watched by a person.

Prefect's server starts while the engine loads. Ctrl-C and SIGTERM cancel: questions in work get their receipt,
leases are let go and children stopped before the program ends.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cli.exit_codes import SOME_FAILED, SUCCEEDED, TERMINATED
from cli.output import print_table, say
from cli.progress import watching
from contracts.result import QuestionResult
from pipeline.loading import LoadedBundle
from pipeline.running import Run, open_run
from pipeline.steps import enter_together, in_thread
from settings.environment import export
from settings.values import Settings


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run that ended: its results in the bundle's order, its report, how long it took, whether it was cut short."""

    run: str
    results: list[QuestionResult]
    report: Path | None
    seconds: float
    whole: bool = True

    def to_json(self) -> dict[str, Any]:
        """The object of `run` and `demo`."""
        questions = [result.to_json() for result in self.results]
        report = None if self.report is None else str(self.report)
        return {"run": self.run, "questions": questions, "report": report, "seconds": round(self.seconds, 3)}

    @property
    def exit_code(self) -> int:
        """0 if every question is complete."""
        return SUCCEEDED if self.whole and all(result.outcome.is_answer for result in self.results) else SOME_FAILED

    def print(self) -> None:
        """The table for people."""
        print_results(self.run, self.results)
        counts = Counter(result.outcome.value for result in self.results)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        reused = sum(result.from_ledger for result in self.results)
        print(f"{told}; {self.seconds:.1f} s" + (f"; {reused} answered from the ledger" if reused else ""))
        if any(result.engine.calibration_model for result in self.results):
            print("answers are the calibration model's: it knows shapes, tones and motion, and is not for evidence")
        if self.report is not None:
            print(f"report: {self.report}")


def print_results(run: str, results: list[QuestionResult]) -> None:
    """One row a question: what it came to, from what, and its receipt."""
    columns = ("question", "outcome", "answer or rule", "artifacts", "tokens", "s", "receipt")
    print_table(f"run {run}", columns, (_row(result) for result in results))


def _row(result: QuestionResult) -> tuple[object, ...]:
    said = result.answer if result.answer is not None else result.rule or result.finish_reason or ""
    artifacts = " ".join(part.artifact.removeprefix("sha256:")[:8] for part in result.parts if part.artifact)
    tokens = (result.usage or {}).get("total_tokens", "")
    receipt = (result.receipt or "").removeprefix("sha256:")[:12] + (" (ledger)" if result.from_ledger else "")
    return result.id, result.outcome.value, said, artifacts, tokens, f"{result.seconds:.2f}", receipt


async def analyse(
    settings: Settings, path: Path, loaded: LoadedBundle, *, again: bool, direct: bool, quiet: bool
) -> Analysis:
    """Run `loaded` (read from `path`) to its end. Raises what opening raises."""
    begin = time.monotonic()
    with canceled_by_sigterm() as arm:
        async with _opened(settings, loaded, again=again, direct=direct) as (run, api_url):
            with watching(run, quiet=quiet):
                if api_url is None:
                    await run.answer_range(range(len(run.questions)))
                else:
                    await _through_prefect(run, path, api_url, arm, again=again)
            results = list(run.results())
            report = await in_thread(run.report)
    return Analysis(run.id, results, report, time.monotonic() - begin)


@asynccontextmanager
async def _opened(
    settings: Settings, loaded: LoadedBundle, *, again: bool, direct: bool
) -> AsyncIterator[tuple[Run, str | None]]:
    """An open run and the API of the Prefect server that will show it, None for `direct`."""
    async with AsyncExitStack() as stack:
        opening = open_run(settings, loaded, again=again)
        if direct:
            yield await stack.enter_async_context(opening), None
            return
        from cli.prefect_server import check_reachable, prefect_server

        if settings.prefect_api_url is not None:
            await check_reachable(settings.prefect_api_url, settings.prefect_api_auth_string)
            yield await stack.enter_async_context(opening), settings.prefect_api_url
            return
        run, api_url = await enter_together(stack, opening, prefect_server(settings.prefect, settings.logs))
        yield run, api_url


async def _through_prefect(run: Run, path: Path, api_url: str, arm: Callable[[], None], *, again: bool) -> None:
    export({"PREFECT_HOME": str(run.settings.prefect)})  # read when Prefect is imported; else it makes ~/.prefect
    from cli.prefect_client import speaking_to

    # The server that is our child asks for nothing.
    auth = run.settings.prefect_api_auth_string if run.settings.prefect_api_url is not None else None
    async with speaking_to(api_url, run.settings.prefect, auth):
        from flows.analyze_bundle import analyze_bundle
        from tasks.analysis import prepared
        from tasks.parameters import AnalysisOptions, BundleParameters

        try:
            async with prepared(run, inside=arm):
                # The exit code judges the outcomes.
                options = AnalysisOptions(again=again, complete_share=0)
                await analyze_bundle(BundleParameters(path=str(path)), options)
        finally:
            arm()


@contextmanager
def canceled_by_sigterm() -> Iterator[Callable[[], None]]:
    """Let SIGTERM cancel the running task as Ctrl-C does, so that everything is closed on the way out.

    Yields what takes the signal back from a library: Prefect's engine puts a handler of its own in place for as long
    as a flow runs, and that one raises in the middle of whatever the loop does.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  # a coroutine runs in a task
    told = False

    def cancel() -> None:
        nonlocal told
        told = True
        task.cancel()

    def arm() -> None:
        loop.add_signal_handler(signal.SIGTERM, cancel)

    arm()
    try:
        yield arm
    except asyncio.CancelledError:
        if not told:
            raise
        say("mosaic: terminated")
        raise typer.Exit(TERMINATED) from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
