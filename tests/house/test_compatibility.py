"""docs/compatibility.md says what the profiles say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from contracts.profile import FACTS, PROFILES
from contracts.profile_endpoints import ENDPOINTS
from contracts.profile_fact import FieldUse
from contracts.profile_launch import LAUNCH_FLAGS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "compatibility.md"


def test_the_page_has_a_row_for_everything_and_a_word_for_each_class() -> None:
    """Facts, fields, endpoints, flags and families of errors, and a legend."""
    page = PAGE.read_text("utf-8")
    names = {*FACTS, *(flag.name for flag in LAUNCH_FLAGS), *(endpoint.path for endpoint in ENDPOINTS)}
    for row in PROFILES.values():
        names |= {*row.fields, *(family.name for family in row.error_families)}
        names |= {defect.name for defect in row.terminal_defects}
    assert {name for name in names if f"\n| `{name}` |" not in page} == set()
    assert {use for use in FieldUse if f"\n| {use.value} | " not in page} == set()


def test_rows_of_a_table_have_its_columns() -> None:
    """No cell breaks a table."""
    lines = PAGE.read_text("utf-8").splitlines()
    for above, line in pairwise(lines):
        if above.startswith("|") and line.startswith("|"):
            assert line.replace("\\|", "").count("|") == above.replace("\\|", "").count("|"), line
