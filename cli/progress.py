"""Progress on stderr while a run works; a person sees a sign of life within a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cli.output import say
from contracts.printable import printable
from contracts.result import QuestionResult
from pipeline.running import Run


@contextmanager
def watching(run: Run, *, quiet: bool) -> Iterator[None]:
    """Show how far `run` is: a bar on a terminal, a line per tenth elsewhere, nothing when `quiet`."""
    if quiet:
        yield
    elif sys.stderr.isatty():
        with _bar(run):
            yield
    else:
        _lines(run)
        yield


@contextmanager
def _bar(run: Run) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[last]}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=len(run.questions), last="")
        run.tell(lambda result: progress.update(bar, advance=1, last=_line(result)))
        yield


def _lines(run: Run) -> None:
    total, done = len(run.questions), 0
    step = max(1, total // 10)

    def tell(result: QuestionResult) -> None:
        nonlocal done
        done += 1
        if done % step == 0 or done == total:
            say(f"{done}/{total}: {_line(result)}")

    run.tell(tell)


def _line(result: QuestionResult) -> str:
    return printable(f"{result.id} {result.outcome.value}")
