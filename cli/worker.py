"""`mosaic worker`: serve the embedded engine, or ask a worker whether it is ready."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.exit_codes import SOME_FAILED, UNAVAILABLE
from cli.output import Json, print_json, print_table, say
from contracts.errors import InputError

app = typer.Typer(help="Workers: what serves a release.", no_args_is_help=True)


@app.command("embedded")
def embedded(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 takes a free one.")] = 0,
) -> None:
    """Serve the calibration model on loopback until SIGTERM or Ctrl-C."""
    say("mosaic: loading the embedded engine")
    asyncio.run(_serve(port))


async def _serve(port: int) -> None:
    from serving.embedded_worker import EmbeddedWorker
    from serving.foreground import serve_until_stopped
    from settings.load import load

    settings = load()

    def announce(worker: EmbeddedWorker) -> None:
        print_json({"url": worker.url, "release": worker.release.name, "identity": str(worker.release.identity())})
        say(f"mosaic: serving the calibration model (not for evidence); staged files from {worker.staging_root}")

    worker = EmbeddedWorker(settings.home, settings.staging, port=port, limits=settings.limits)
    await serve_until_stopped(worker, announce)


@app.command("status")
def status(
    url: Annotated[str, typer.Argument(help="The worker's base URL.")],
    staging: Annotated[
        Path | None, typer.Option(help="The worker's staging root: lets the last gate ask a question.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Readiness by gate: connection, health, the route, and a question with a known answer.

    Exit 1 if it is not ready, 3 if nothing answers at URL."""
    from serving.readiness import Verdict, check_ready

    if not url.startswith(("http://", "https://")):
        raise InputError("worker-url", f"expected an http or https URL, got {url!r}")
    gates = asyncio.run(check_ready(url, staging_root=staging and staging.resolve()))
    rows = [{"gate": gate.name, "verdict": gate.verdict.value, "reason": gate.reason} for gate in gates]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table(f"worker {url}", ("gate", "verdict", "reason"), (row.values() for row in rows))
    failed = [gate.name for gate in gates if gate.verdict is Verdict.FAIL]
    if failed:
        raise typer.Exit(UNAVAILABLE if failed[0] == "tcp" else SOME_FAILED)
