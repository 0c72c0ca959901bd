"""The lease: its states and the arithmetic of holding it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import Digest
from contracts.errors import LeaseError
from contracts.lease import TRANSITIONS, Lease, LeaseEvent, LeaseState, ProcessMark, advance

MARK = ProcessMark("host", "boot", "pid:[1]", 4, 5)


def lease(now: float = 100.0, ttl_s: float = 30.0, state: LeaseState = LeaseState.ACTIVE) -> Lease:
    """A lease acquired at `now`."""
    return Lease("l", "acme", Digest.of(b""), "x.png", "run/1", MARK, 1, now, ttl_s, now + ttl_s, state)


@pytest.mark.parametrize(
    "pair",
    list(itertools.product(LeaseState, LeaseEvent)),
    ids=lambda pair: f"{pair[1].value} a lease that is {pair[0].value}",
)
def test_a_lease_that_ended_stays_ended(pair: tuple[LeaseState, LeaseEvent]) -> None:
    """Only an active lease can be renewed, released or expired; everything else is refused."""
    if pair[0] is LeaseState.ACTIVE:
        assert advance(*pair) is TRANSITIONS[pair]
    else:
        with pytest.raises(LeaseError, match="lease-ended"):
            advance(*pair)


def test_the_three_deadlines_come_at_one_two_and_three_thirds() -> None:
    """Renew after a third, stop after two thirds, lost after the whole."""
    held = lease()
    marks = [(held.renew_due(t), held.must_stop(t), held.expired(t)) for t in (109.9, 110, 119.9, 120, 129.9, 130)]
    assert marks == [
        (False, False, False),
        (True, False, False),
        (True, False, False),
        (True, True, False),
        (True, True, False),
        (True, True, True),
    ]


def test_a_renewal_begins_the_time_to_live_anew() -> None:
    """After a renewal at 115 the lease holds until 145 and the next renewal is due at 125."""
    held = lease().renewed(115.0)
    assert held.expires_at == 145.0
    assert not held.renew_due(124.9)
    assert held.renew_due(125.0)


def test_a_lease_that_ended_cannot_be_renewed() -> None:
    """An expired lease has no new time to live."""
    with pytest.raises(LeaseError):
        lease(state=LeaseState.EXPIRED).renewed(101.0)


@given(st.floats(0, 1e9), st.floats(1, 1e5), st.floats(-1e6, 1e6))
def test_a_clock_that_jumps_never_shortens_a_lease(now: float, ttl_s: float, jump: float) -> None:
    """Whatever the clock says at a renewal, the lease holds at least as long as before."""
    held = lease(now, ttl_s)
    assert held.renewed(now + jump).expires_at >= held.expires_at


@given(st.floats(0, 1e9), st.floats(1, 1e5), st.floats(0, 2e5))
def test_a_holder_stops_before_anybody_takes_the_file(now: float, ttl_s: float, later: float) -> None:
    """There is no moment at which a lease has expired and its holder need not have stopped."""
    held = lease(now, ttl_s)
    assert not held.expired(now + later) or held.must_stop(now + later)
