"""Renders the rows of docs/verification_rows.py: python -m docs.render_verification > docs/verification.md

Raises SystemExit for a row whose test does not exist.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from docs.verification_rows import CHECKLIST, EXERCISES, VERIFICATION, Row

_ROOT = Path(__file__).resolve().parent.parent
_INTRODUCTION = """# Verification

What the product says of itself, what has to be shown for it, and which tests show it. Generated from
`docs/verification_rows.py`, whose tests are looked up; a test fails when this page is stale. Run one by its name:

    .venv-test/bin/python -m pytest tests/contracts/test_sse.py -k the_framing_is_that_of_the_standard

`not yet` says what is missing, also beside tests that show a part. Words are explained in
[architecture.md](architecture.md)."""


def render() -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        "## What the serving contract has to prove",
        _table(("area", "property", "tests"), VERIFICATION),
        "## Exercises of the design",
        _table(("exercise", "what holds here", "tests"), EXERCISES),
        "## Questions of a review",
        _table(("question", "answer", "tests"), CHECKLIST),
    ]
    return "\n\n".join(parts) + "\n"


def test_of(name: str) -> tuple[Path, str]:
    """The file and the function that `folder/module:name` stands for."""
    module, _, function = name.partition(":")
    folder, _, stem = module.rpartition("/")
    return _ROOT / "tests" / folder / f"test_{stem}.py", f"test_{function}"


def exists(name: str) -> bool:
    """Whether the test that `name` stands for is there."""
    file, function = test_of(name)
    return file.is_file() and function in _functions(file)


@cache
def _functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def _table(columns: tuple[str, str, str], rows: Iterable[Row]) -> str:
    lines = [list(columns), ["---"] * 3, *([row.asked, row.shown, _cell(row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: Row) -> str:
    shown = []
    for name in row.tests:
        if not exists(name):
            raise SystemExit(f"no such test: {name}")
        file, function = test_of(name)
        path = file.relative_to(_ROOT / "tests").as_posix()
        shown.append(f"[`{path}::{function}`](../tests/{path})")
    if row.missing:
        shown.append(f"not yet: {row.missing}")
    return "; ".join(shown)


if __name__ == "__main__":
    sys.stdout.write(render())
