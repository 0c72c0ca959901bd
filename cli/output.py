"""What commands print: JSON lines on stdout for machines, tables for people; everything else goes to stderr.

Text that came from evidence, a model or a server is never interpreted: rich markup is off for it and control
characters (terminal escapes among them) are shown as �.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.printable import escaped_json, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout, nothing else.")]


def print_json(value: Any) -> None:
    """Print one line of JSON and flush, so that a reader sees it at once."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def json_text(value: Any, indent: int | None = None) -> str:
    """`value` as JSON in UTF-8, with escapes for what JSON lets through and a terminal would obey."""
    separators = (",", ":") if indent is None else None
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=separators, indent=indent))


def say(message: str) -> None:
    """Tell the person something, on stderr. Its lines are ours: texts of others are quoted in them (`!r`)."""
    for line in message.split("\n"):
        sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table on stdout; cells are plain text."""
    console().print(table(title, columns, rows))


def table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> Table:
    """A table whose cells are plain text."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    for row in rows:
        made.add_row(*(Text(printable(str(cell)), style=_style(cell)) for cell in row))
    return made


def console() -> Console:
    """Stdout, wide enough for our tables where it is no terminal."""
    from rich.console import Console

    made = Console()
    if not made.is_terminal:
        made.width = max(made.width, 140)
    return made


_WHOLE = {"receipt", "outcome", "verdict", "tokens", "s", "ms"}  # cells that are copied, or too short to break
_GOOD = {"complete", "valid", "allow", "accept", "pass", "ready"}
_BAD = {"invalid", "unverifiable", "deny", "reject", "fail", "died", "not ready"}


def _style(cell: object) -> str:
    if cell in _GOOD:
        return "green"
    return "red" if cell in _BAD else ""
