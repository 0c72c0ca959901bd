"""docs/verification.md names tests that exist, and says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.render_verification import exists
from docs.verification_rows import CHECKLIST, EXERCISES, VERIFICATION, Row

_ROOT = Path(__file__).resolve().parent.parent.parent


def test_there_is_a_row_for_all_that_is_asked() -> None:
    """Twelve areas, eight exercises and fourteen questions, none twice."""
    for rows, count in ((VERIFICATION, 12), (EXERCISES, 8), (CHECKLIST, 14)):
        assert len({row.asked for row in rows}) == len(rows) == count


@pytest.mark.parametrize("row", [*VERIFICATION, *EXERCISES, *CHECKLIST], ids=lambda row: row.asked)
def test_each_row_has_tests_that_exist_or_says_what_is_missing(row: Row) -> None:
    """Nothing is claimed that no test shows."""
    assert row.tests or row.missing
    assert [name for name in row.tests if not exists(name)] == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    """Neither an unknown file nor an unknown function passes."""
    assert not exists("contracts/sse:nothing_of_the_kind")
    assert not exists("contracts/nothing:at_all")
