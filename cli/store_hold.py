"""`mosaic store hold`: legal holds, which keep media whatever retention says."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cli.output import Json, print_json, print_table

app = typer.Typer(help="Legal holds: media that no retention removes.", no_args_is_help=True)
Subject = Annotated[str, typer.Argument(help="TENANT, TENANT/BUNDLE, or sha256:<hex> for one blob.")]


@app.command("add")
def add(
    subject: Subject,
    reason: Annotated[str, typer.Option(help="Why, for whoever lifts it.")] = "",
    as_json: Json = False,
) -> None:
    """Hold a tenant's media, a bundle's, or one blob, from now on."""
    from settings.load import load
    from storage.home import storage_of
    from storage.retention import add_hold

    storage = storage_of(load())
    add_hold(storage.ledger, subject, reason, time.time())
    storage.close()
    _tell("held", subject, as_json)


@app.command("remove")
def remove(subject: Subject, as_json: Json = False) -> None:
    """Lift a hold: from then on retention counts again."""
    from settings.load import load
    from storage.home import storage_of
    from storage.retention import remove_hold

    storage = storage_of(load())
    remove_hold(storage.ledger, subject)
    storage.close()
    _tell("lifted", subject, as_json)


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the holds, oldest first."""
    from contracts.receipt import timestamp
    from settings.load import load
    from storage.home import storage_of
    from storage.retention import list_holds

    storage = storage_of(load())
    holds = list_holds(storage.ledger)
    storage.close()
    rows = [{"subject": each.subject, "reason": each.reason, "since": timestamp(each.created_at)} for each in holds]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table("legal holds", ("subject", "reason", "since"), (row.values() for row in rows))


def _tell(what: str, subject: str, as_json: bool) -> None:
    if as_json:
        print_json({"hold": what, "subject": subject})
    else:
        typer.echo(f"{what}: {subject}")
