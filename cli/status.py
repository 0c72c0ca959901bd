"""`mosaic status`: the parts of the stack, each used once, and the runs, live from the ledger."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exit_codes import SOME_FAILED, SUCCEEDED, UNAVAILABLE
from cli.output import Json, print_json, say, table

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
        state, parts, runs = _look(settings)
        if as_json:
            print_json(
                {"state": state, "parts": [each.to_json() for each in parts], "runs": [_object(r) for r in runs]}
            )
        else:
            _print(_shown(state, parts, runs))
    else:
        state, parts = _watch(settings)
    if state != "up":
        raise typer.Exit(UNAVAILABLE)
    raise typer.Exit(SUCCEEDED if all(part.not_ready is None for part in parts) else SOME_FAILED)


def _look(settings: Settings) -> tuple[str, list[PartNow], list[Run]]:
    import asyncio

    from cli.stack import parts_now
    from stack.folder import StackFolder
    from stack.report import running_report
    from storage.home import storage_of

    report = running_report(StackFolder(settings.home))
    parts = [] if report is None else asyncio.run(parts_now(settings, report))
    storage = storage_of(settings)
    try:
        runs = storage.runs.list(limit=RUNS)
    finally:
        storage.close()
    return "down" if report is None else report.phase.value, parts, runs


def _watch(settings: Settings) -> tuple[str, list[PartNow]]:
    """Refresh until Ctrl-C; what was seen last."""
    from rich.live import Live

    state, parts, runs = _look(settings)
    with Live(_shown(state, parts, runs), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(REFRESH_S)
                state, parts, runs = _look(settings)
                live.update(_shown(state, parts, runs), refresh=True)
        except KeyboardInterrupt:
            return state, parts


def _shown(state: str, parts: list[PartNow], runs: list[Run]) -> RenderableType:
    from rich.console import Group

    from cli.stack import COLUMNS

    return Group(
        table(f"the stack is {state}", COLUMNS, (part.row() for part in parts)),
        table("runs", _RUN_COLUMNS, (_object(run).values() for run in runs)),
    )


def _print(shown: RenderableType) -> None:
    from cli.output import console

    console().print(shown)


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
