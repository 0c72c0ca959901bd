"""`mosaic stream`: look at a recorded answer stream, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import regular_files
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table
from contracts.printable import printable

app = typer.Typer(help="Check recorded answer streams against the stream contract.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(help="Files with the raw bytes of a stream.", exists=True, dir_okay=False)]
_READ_BYTES = 1 << 16


@app.command("check")
def check(
    files: Files,
    profile: Annotated[str, typer.Option(help="Engine version whose profile applies.")] = "0.8.17",
    route: Annotated[str | None, typer.Option(help="Model name that every chunk must carry.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Budget of the request.")] = 4096,
    as_json: Json = False,
) -> None:
    """Validate streams: which outcome, by which rule. Exit 1 unless all are complete."""
    from contracts.completion import check_stream
    from contracts.limits import Limits
    from contracts.profile import profile as profile_of

    engine, limits, rows = profile_of(profile), Limits(), []
    for file in regular_files(files):
        got = check_stream(_chunks(file), profile=engine, route=route, max_tokens=max_tokens, limits=limits)
        row = {
            "file": str(file),
            "outcome": got.outcome.value,
            "rule": got.rule,
            "reason": got.reason,
            "text": got.text,
            "usage": got.usage.to_json() if got.usage else None,
            "events": got.events,
            "stream_digest": str(got.stream_digest),
        }
        rows.append(row)
        if as_json:
            print_json(row)
    if not as_json:
        shown = ("file", "outcome", "rule", "events", "reason")
        print_table("streams", shown, ([row[name] or "" for name in shown] for row in rows))
    if any(row["outcome"] != "complete" for row in rows):
        raise typer.Exit(SOME_FAILED)


@app.command("events")
def events(files: Files, as_json: Json = False) -> None:
    """Show what the event-stream decoder alone sees (WHATWG HTML §9.2). Exit 1 if a stream could not be decoded."""
    from contracts.sse import stream_events

    failed = False
    for file in regular_files(files):
        seen, error = stream_events(_chunks(file))
        failed = failed or error is not None
        if as_json:
            print_json({"file": str(file), "events": [list(event) for event in seen], "error": error})
            continue
        typer.echo(f"{file}: {len(seen)} events" + (f", then {error}" if error else ""))
        for name, data in seen:
            typer.echo(f"  {printable(name)}: {printable(data)}")
    if failed:
        raise typer.Exit(SOME_FAILED)


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while data := stream.read(_READ_BYTES):
            yield data
