"""`mosaic reap`: collect what dead processes left: leases, staged files, quarantine, open attempts."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.output import Json, print_json, print_table


def reap(
    host: Annotated[
        list[str] | None,
        typer.Option(help="Also what was held on this host, which is gone for good. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Close and remove what a killed run left behind. Safe beside live runs; nothing that is leased is touched."""
    import time
    from dataclasses import asdict

    from settings.load import load
    from storage.home import storage_of
    from storage.reap import reap as collect

    storage = storage_of(load())
    collected = asdict(collect(storage, time.time(), gone=host or ()))
    storage.close()
    if as_json:
        print_json({**collected, "findings": []})
    else:
        print_table("reaped", ("what", "count"), ((name.replace("_", " "), count) for name, count in collected.items()))
