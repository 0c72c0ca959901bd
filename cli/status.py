"""`mosaic status`: the parts of the stack, each used once, and the runs, live from the ledger."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exit_codes import SOME_FAILED, SUCCEEDED, UNAVAILABLE
from cli.output import Json, console, print_json, say, table
from contracts.errors import StorageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cli.stack import PartNow
    from settings.values import Settings
    from storage.runs import Run

RUNS = 15
REFRESH_S = 1.0
_RUN_COLUMNS = ("run", "bundle", "state", "done", "questions", "started", "s")


def status(
    once: Annotated[bool, typer.Option("--once", help="Print it once; as it is where stdout is no terminal.")] = False,
    as_json: Json = False,
) -> None:
    """Show the stack and the latest runs, on a terminal until Ctrl-C. Exit 1: a part is not ready; 3: none is up."""
    say("mosaic: asking the parts")
    from settings.load import load

    settings = load()
    if as_json or once or not sys.stdout.isatty():
        seen = _look(settings)
        if as_json:
            print_json(seen.to_json())
        else:
            console().print(_shown(seen))
    else:
        seen = _watch(settings)
    if seen.state != "up":
        raise typer.Exit(UNAVAILABLE)
    raise typer.Exit(SUCCEEDED if all(part.not_ready is None for part in seen.parts) else SOME_FAILED)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The stack's phase, its parts, the latest runs; `ledger` says why they could not be read, if they could not."""

    state: str
    parts: list[PartNow]
    runs: list[Run]
    ledger: str

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "parts": [part.to_json() for part in self.parts],
            "runs": [_object(run) for run in self.runs],
            "ledger": self.ledger or "ready",
        }


def _look(settings: Settings) -> _Seen:
    import asyncio

    from cli.stack import parts_now
    from stack.folder import StackFolder
    from stack.report import running_report

    report = running_report(StackFolder(settings.home))
    parts = [] if report is None else asyncio.run(parts_now(settings, report))
    runs, ledger = _runs(settings)
    return _Seen("down" if report is None else report.phase.value, parts, runs, ledger)


def _runs(settings: Settings) -> tuple[list[Run], str]:
    from storage.home import LEDGER, storage_of

    if settings.database_url is None and not (settings.home / LEDGER).exists():
        return [], ""  # who only looks makes no ledger
    try:
        storage = storage_of(settings)
    except StorageError as error:  # it is a part of the stack, which is down
        return [], error.reason
    try:
        return storage.runs.list(limit=RUNS), ""
    except StorageError as error:
        return [], error.reason
    finally:
        storage.close()


def _watch(settings: Settings) -> _Seen:
    """Refresh until Ctrl-C; what was seen last."""
    from rich.live import Live

    seen = _look(settings)
    with Live(_shown(seen), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(REFRESH_S)
                seen = _look(settings)
                live.update(_shown(seen), refresh=True)
        except KeyboardInterrupt:
            return seen


def _shown(seen: _Seen) -> RenderableType:
    from rich.console import Group

    from cli.stack import COLUMNS

    return Group(
        table(f"the stack is {seen.state}", COLUMNS, (part.row() for part in seen.parts)),
        table(f"runs{seen.ledger and f' (the ledger: {seen.ledger})'}", _RUN_COLUMNS, map(_row, seen.runs)),
    )


def _row(run: Run) -> Iterable[object]:
    return _object(run).values()


def _object(run: Run) -> dict[str, Any]:
    ended = time.time() if run.ended_at is None else run.ended_at
    return {
        "run": run.id,
        "bundle": run.bundle_id,
        "state": run.state.value,
        "done": run.done,
        "questions": run.questions,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.started_at)),
        "seconds": round(ended - run.started_at, 1),
    }
