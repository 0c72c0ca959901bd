"""`mosaic up`: the single-host stack, from wheels alone, ready when the command ends."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cli.output import Json, print_json, print_table, say
from stack.folder import StorageOf


def up(
    storage: Annotated[
        StorageOf | None,
        typer.Option(help="Where this home keeps ledger and blobs: in itself, or in the stack. Once chosen, it stays."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the stack, wait until every part works, and deploy. If it is up already, mend what died."""
    say("mosaic: looking at the stack")
    import asyncio

    from cli.bringing_up import bring_up
    from cli.stack import COLUMNS, parts_now
    from settings.load import load
    from stack.main import plan_of
    from stack.storage import storage_in_force

    begin = time.monotonic()
    settings = load()
    report, already = bring_up(settings, storage)
    parts = asyncio.run(parts_now(settings, report))
    plan = plan_of(settings, report.ports)
    told = {
        "state": "up",
        "already": already,
        "ui": plan.ui_url,
        "api": plan.prefect_api_url,
        "storage": storage_in_force(plan.folder).value,
        "auth_file": str(plan.folder.secrets / "prefect-auth"),
        "parts": [part.to_json() for part in parts],
        "seconds": round(time.monotonic() - begin, 3),
    }
    if as_json:
        print_json(told)
        return
    print_table("the stack is up" + (" already" if already else ""), COLUMNS, (part.row() for part in parts))
    print(f"Prefect: {told['ui']} (it asks for what is in {told['auth_file']})")
    print("submit:  ./mosaic run BUNDLE --remote    watch: ./mosaic status    stop: ./mosaic down")
