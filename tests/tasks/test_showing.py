"""What Prefect's UI shows of a run: bounded, with the failures first."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.outcome import Outcome
from contracts.result import QuestionResult, ResultEngine
from tasks.showing import TABLE_ROWS, table

ENGINE = ResultEngine("r", "sha256:0", True)


def results(count: int, every: int) -> Iterator[QuestionResult]:
    """Results of which each `every`-th was refused."""
    for number in range(count):
        outcome = Outcome.REFUSED if number % every == 0 else Outcome.CANCELED
        yield QuestionResult.untried(f"q{number}\x1b[2J", outcome, "rule", "r" * 999, {}, ENGINE)


def test_a_table_holds_no_more_than_its_bound() -> None:
    """However many questions there are; how many are left out is told, and no cell is long or steers a terminal."""
    rows, left_out = table(results(TABLE_ROWS + 7, 2))
    assert (len(rows), left_out) == (TABLE_ROWS, 7)
    assert all(len(row["reason"]) <= 201 and "\x1b" not in row["question"] for row in rows)


def test_failures_come_before_answers() -> None:
    """Also where the answers alone would fill the table."""
    complete = [_complete(f"good{n}") for n in range(TABLE_ROWS)]
    rows, left_out = table([*complete, *results(1, 1)])
    assert (rows[0]["outcome"], rows[1]["outcome"], left_out) == ("refused", "complete", 1)


def _complete(name: str) -> QuestionResult:
    untried = QuestionResult.untried(name, Outcome.CANCELED, "rule", "reason", {}, ENGINE)
    return QuestionResult.from_json(untried.to_json() | {"outcome": "complete", "answer": "yes"})
