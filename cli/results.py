"""`mosaic results`: what a run came to, from the ledger."""

from __future__ import annotations

import csv
import sys
from enum import Enum
from typing import Annotated

import typer

from cli.output import Json, json_text, print_json
from contracts.errors import InputError
from contracts.printable import printable
from contracts.result import QuestionResult


class Format(str, Enum):
    """How to print."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


_COLUMNS = (
    "id", "outcome", "rule", "reason", "answer", "finish_reason", "seconds", "question_digest", "receipt",
    "from_ledger", "labels",
)  # fmt: skip


def results(
    run: Annotated[str, typer.Argument(help="A run's id or a unique beginning of it.")],
    form: Annotated[
        Format, typer.Option("--format", help="json is one array, jsonl one object per line.")
    ] = Format.TABLE,
    as_json: Json = False,
) -> None:
    """Print the questions of RUN in the bundle's order."""
    from cli.analysis import print_results
    from settings.load import load
    from storage.home import storage_of

    if as_json and form is not Format.TABLE:
        raise InputError("format-twice", f"expected --json or --format {form.value}, got both")
    settings = load()
    storage = storage_of(settings)
    found = storage.runs.get(run, tenant=settings.tenant)
    rows = storage.runs.results(found.id)
    chosen = Format.JSONL if as_json else form
    if chosen is Format.JSONL:
        for row in rows:
            print_json(row.to_json())
    elif chosen is Format.JSON:
        sys.stdout.write(json_text([row.to_json() for row in rows], indent=1) + "\n")
    elif chosen is Format.CSV:
        _print_csv(list(rows))
    else:
        print_results(found.id, list(rows))
    storage.close()


def _print_csv(rows: list[QuestionResult]) -> None:
    """Cells that a spreadsheet would run as a formula are quoted with an apostrophe: evidence wrote them."""
    writer = csv.writer(sys.stdout)
    writer.writerow(_COLUMNS)
    for row in rows:
        document = row.to_json()
        document["labels"] = json_text(document["labels"])
        writer.writerow(["" if document[name] is None else inert(printable(str(document[name]))) for name in _COLUMNS])


def inert(cell: str) -> str:
    """`cell` as text for a spreadsheet, which strips white space before it looks for a formula."""
    return f"'{cell}" if cell.lstrip().startswith(("=", "+", "-", "@")) else cell
