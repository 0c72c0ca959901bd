"""Laws of admission by weight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.admission import Admission
from contracts.errors import InputError

_CAPACITY = 8
_WEIGHTS = st.lists(st.integers(1, _CAPACITY), max_size=20)


def _asked(weights: list[int]) -> Admission:
    admission = Admission(_CAPACITY)
    for ticket, weight in enumerate(weights):
        admission = admission.ask(ticket, weight)
    return admission


@given(_WEIGHTS)
def test_never_over_capacity(weights: list[int]) -> None:
    """What is granted fits, and the head that stays would not have."""
    admission, granted = _asked(weights).grant()
    assert admission.used == sum(waiting.weight for waiting in granted) <= _CAPACITY
    if admission.queue:
        assert admission.used + admission.queue[0].weight > _CAPACITY


@given(_WEIGHTS)
def test_admit_then_release_is_no_change(weights: list[int]) -> None:
    """Giving back all that was granted leaves as much in use as before."""
    asked = _asked(weights)
    admission, granted = asked.grant()
    for waiting in granted:
        admission = admission.release(waiting.weight)
    assert admission.used == asked.used


@given(_WEIGHTS)
def test_everybody_gets_in_order(weights: list[int]) -> None:
    """Nobody starves: with holders that end, all are granted, in the order in which they asked."""
    admission, order = _asked(weights), []
    while admission.queue:
        admission, granted = admission.grant()
        assert granted
        order += [waiting.ticket for waiting in granted]
        for waiting in granted:
            admission = admission.release(waiting.weight)
    assert order == list(range(len(weights)))


@given(_WEIGHTS, st.integers(0, 25))
def test_withdraw(weights: list[int], ticket: int) -> None:
    """A withdrawn request is gone, and all others keep their order."""
    asked = _asked(weights)
    assert [waiting.ticket for waiting in asked.withdraw(ticket).queue] == [
        waiting.ticket for waiting in asked.queue if waiting.ticket != ticket
    ]


@pytest.mark.parametrize("weight", [0, -1, _CAPACITY + 1])
def test_impossible_weight(weight: int) -> None:
    """A weight that could never be admitted is refused instead of queued for ever."""
    with pytest.raises(InputError, match="admission-weight"):
        Admission(_CAPACITY).ask(1, weight)


def test_too_much_back() -> None:
    """More cannot come back than was held."""
    with pytest.raises(InputError, match="admission-capacity"):
        Admission(_CAPACITY, used=1).release(2)
