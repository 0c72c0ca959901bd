"""The closed list of outcomes."""

from __future__ import annotations

import pytest

from contracts.outcome import ENGINE_ANSWERED, NEVER_SUBMITTED, Outcome

ALL = [
    "complete",
    "length_limited",
    "answer_invalid",
    "incomplete",
    "engine_error",
    "protocol_violation",
    "refused",
    "source_failed",
    "unavailable",
    "lease_lost",
    "canceled",
    "abandoned",
]


def test_the_list_is_closed() -> None:
    """These twelve, by these names: receipts hold them."""
    assert [outcome.value for outcome in Outcome] == ALL


@pytest.mark.parametrize("outcome", Outcome)
def test_only_complete_is_an_answer(outcome: Outcome) -> None:
    """Everything else is something else."""
    assert outcome.is_answer == (outcome.value == "complete")


def test_an_attempt_that_sent_nothing_was_not_answered() -> None:
    """The two groups have nothing in common."""
    assert not NEVER_SUBMITTED & ENGINE_ANSWERED
    assert Outcome.COMPLETE in ENGINE_ANSWERED
    assert {Outcome.REFUSED, Outcome.SOURCE_FAILED} == NEVER_SUBMITTED
