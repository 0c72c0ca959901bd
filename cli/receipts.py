"""`mosaic receipts`: list, show and verify receipts, offline and from the store alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table, say
from contracts.errors import InputError
from contracts.printable import printable

if TYPE_CHECKING:
    from contracts.digest import Digest
    from storage.home import Storage

app = typer.Typer(help="Receipts: what every attempt did, verifiable down to the media bytes.", no_args_is_help=True)


@app.command("list")
def list_receipts(
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, latest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List receipts, latest first."""
    from contracts.receipt import timestamp

    storage, tenant = _storage()
    only = None if run is None else storage.runs.get(run, tenant=tenant).id
    entries = storage.receipts.list(tenant=tenant, run=only, limit=limit)
    rows = [
        {
            "receipt": str(entry.id),
            "run": entry.run,
            "question": entry.question_id,
            "outcome": entry.outcome.value,
            "created_at": timestamp(entry.created_at),
        }
        for entry in entries
    ]
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = ("receipt", "run", "question", "outcome", "created")
    print_table("receipts", columns, ((row | {"receipt": row["receipt"][7:23]}).values() for row in rows))
    if len(rows) == limit:
        say(f"the latest {limit}; --limit shows more")


@app.command("show")
def show(
    reference: Annotated[str, typer.Argument(help="A receipt's id, or at least 8 hex digits of it.")],
    _as_json: Json = False,
) -> None:
    """Print the receipt's bytes exactly as they were hashed; they are JSON with and without --json."""
    storage, tenant = _storage()
    _, data = storage.receipts.get(reference, tenant=tenant)
    sys.stdout.buffer.write(data)
    if sys.stdout.isatty():
        sys.stdout.write("\n")


@app.command("verify")
def verify(
    references: Annotated[list[str] | None, typer.Argument(help="Receipts by id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every receipt of the ledger.")] = False,
    as_json: Json = False,
) -> None:
    """Recompute everything receipts say from the store's bytes. Exit 1 if any is not valid, 2 if there is none."""
    from storage.retention import retired_at
    from storage.verify import Verdict, VerdictName, verify_receipt
    from storage.verify_rows import missing_receipts, row_findings

    storage, tenant = _storage()
    counts, noted = dict.fromkeys((name.value for name in VerdictName), 0), 0
    for identity, data in _chosen(storage, tenant, references or [], everything):
        verdict = verify_receipt(identity, data, storage.blobs, retired_at=retired_at(storage.ledger, identity))
        verdict = Verdict(identity, verdict.findings + row_findings(storage.ledger, identity), verdict.notes)
        counts[verdict.verdict.value] += 1
        noted += bool(verdict.notes)
        _tell(verdict.to_json(), as_json)
    for finding in missing_receipts(storage.ledger, tenant) if everything else ():
        counts["invalid"] += 1
        _tell({"receipt": None, "verdict": "invalid", "findings": [finding.to_json()], "notes": []}, as_json)
    if not sum(counts.values()):
        raise InputError("nothing-to-verify", "no receipt to verify in this store")
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    told += f" ({noted} without media that retention removed)" if noted else ""
    if not as_json:
        typer.echo(told)
    else:
        say(told)
    if counts["invalid"] or counts["unverifiable"]:
        raise typer.Exit(SOME_FAILED)


def _tell(verdict: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(verdict)
    elif verdict["findings"] or verdict["notes"]:
        typer.echo(f"{verdict['receipt'] or 'no receipt'} {verdict['verdict']}")
        for finding in verdict["findings"] + verdict["notes"]:
            typer.echo(printable(f"  {finding['rule']}: {finding['reason']} {finding['digest'] or ''}".rstrip()))


def _chosen(storage: Storage, tenant: str, references: list[str], everything: bool) -> Iterator[tuple[Digest, bytes]]:
    if everything:
        yield from storage.receipts.all(tenant=tenant)
    elif not references:
        raise InputError("nothing-to-do", "expected receipts' ids or --all, got neither")
    for reference in references:
        yield storage.receipts.get(reference, tenant=tenant)


def _storage() -> tuple[Storage, str]:
    """This home's storage, and the tenant whose receipts are asked for."""
    from settings.load import load
    from storage.home import storage_of

    settings = load()
    return storage_of(settings), settings.tenant
