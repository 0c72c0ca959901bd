"""Whose turn a fetch is: never over a cap, no slot idle that somebody waits for, nobody starved."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from intake.fetch_turns import FetchTurns

Entry = tuple[int, str, str]
"""A ticket's number, its tenant and its host."""

names = st.sampled_from(["a", "b", "c"])


def _serve_all(turns: FetchTurns[Entry]) -> list[Entry]:
    return list(iter(turns.serve, None))


class Turns(RuleBasedStateMachine):
    """Tenants and hosts come, are served, give up and end in any order; a plain list says what must hold."""

    slots, per_host = 4, 2

    def __init__(self) -> None:
        super().__init__()
        self.turns: FetchTurns[Entry] = FetchTurns(self.slots, self.per_host)
        self.numbers = count()
        self.waiting: list[Entry] = []
        self.running: list[Entry] = []

    @rule(tenant=names, host=names)
    def comes(self, tenant: str, host: str) -> None:
        """A fetch waits."""
        entry = (next(self.numbers), tenant, host)
        self.turns.wait(entry, tenant=tenant, host=host)
        self.waiting.append(entry)

    @rule()
    def is_served(self) -> None:
        """Whoever is next gets a slot; nobody does only where every host that is waited for, or all, is full."""
        entry = self.turns.serve()
        in_use = Counter(host for _, _, host in self.running)
        may = [each for each in self.waiting if in_use[each[2]] < self.per_host]
        if len(self.running) == self.slots or not may:
            assert entry is None
            return
        assert entry in may
        assert entry == next(each for each in self.waiting if each[1:] == entry[1:]), "first come of its own kind"
        self.waiting.remove(entry)
        self.running.append(entry)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        """Any of those that run ends."""
        entry = data.draw(st.sampled_from(self.running))
        self.running.remove(entry)
        self.turns.free(entry[2])

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def gives_up(self, data: st.DataObject) -> None:
        """Any of those that wait is canceled."""
        entry = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(entry)
        self.turns.give_up(entry, tenant=entry[1], host=entry[2])

    @invariant()
    def holds(self) -> None:
        """The caps, and that nobody is lost."""
        assert len(self.running) <= self.slots
        assert all(running <= self.per_host for running in Counter(host for _, _, host in self.running).values())
        assert len(self.turns) == len(self.waiting)

    def teardown(self) -> None:
        """Whoever waits is served in the end."""
        for _ in range(len(self.waiting)):
            for entry in self.running:
                self.turns.free(entry[2])
            self.running = _serve_all(self.turns)
            for entry in self.running:
                self.waiting.remove(entry)
        assert self.waiting == []


test_any_order_of_events_keeps_the_caps_and_loses_nobody = Turns.TestCase


@pytest.mark.parametrize("own_host", [True, False], ids=["a host of its own", "the same host"])
def test_a_tenant_with_one_does_not_wait_for_one_with_ten_thousand(own_host: bool) -> None:
    """Whether slots in all or those of one host are scarce, the newcomer gets the second slot that is freed."""
    turns: FetchTurns[Entry] = FetchTurns(2, 2)
    for number in range(10_000):
        turns.wait((number, "many", "busy"), tenant="many", host="busy")
    _serve_all(turns)
    host = "calm" if own_host else "busy"
    turns.wait((0, "one", host), tenant="one", host=host)
    served = []
    for _ in range(2):
        turns.free("busy")
        served += _serve_all(turns)
    assert (0, "one", host) in served


def test_a_host_that_never_answers_holds_only_its_own_slots() -> None:
    """Ten thousand fetches of a silent host come first, and those of another host run beside the few that it holds."""
    turns: FetchTurns[Entry] = FetchTurns(8, 3)
    for number in range(10_000):
        turns.wait((number, "t", "silent"), tenant="t", host="silent")
    for number in range(100):
        turns.wait((number, "t", "quick"), tenant="t", host="quick")
    hosts = [host for _, _, host in _serve_all(turns)]
    assert Counter(hosts) == {"silent": 3, "quick": 3}
    for done in range(97):
        turns.free("quick")
        assert _serve_all(turns) == [(done + 3, "t", "quick")]


def test_a_tenant_served_elsewhere_keeps_its_turn_at_a_host() -> None:
    """Slots of one host go round its tenants, also where one of them gets every slot of another host meanwhile."""
    turns: FetchTurns[Entry] = FetchTurns(100, 1)
    for number in range(50):
        turns.wait((number, "a", "shared"), tenant="a", host="shared")
        turns.wait((number, "b", "shared"), tenant="b", host="shared")
        turns.wait((number, "b", "own"), tenant="b", host="own")
    _serve_all(turns)
    shared: list[str] = []
    for _ in range(20):
        turns.free("own")
        _serve_all(turns)  # b is served, and so is last of all tenants
        turns.free("shared")
        shared += [tenant for _, tenant, host in _serve_all(turns) if host == "shared"]
    assert "aaabaaab" in "".join(shared)  # passed over as often as there are tenants, then served


@given(loads=st.lists(st.tuples(names, names), min_size=1, max_size=60), rare=st.sampled_from(["a", "b", "new"]))
def test_a_newcomer_is_served_within_its_bound(loads: list[tuple[str, str]], rare: str) -> None:
    """Whoever waits, and however long their rows: twice the tenants bound a tenant's wait, for each of its hosts."""
    turns: FetchTurns[Entry] = FetchTurns(1, 1)
    for number, (tenant, host) in enumerate(loads):
        turns.wait((number, tenant, host), tenant=tenant, host=host)
    last = (-1, rare, "h")
    turns.wait(last, tenant=rare, host="h")
    tenants = {tenant for tenant, _ in loads} | {rare}
    hosts = {host for tenant, host in loads if tenant == rare} | {"h"}
    for _ in range(2 * len(tenants) * len(hosts) + 1):
        entry = turns.serve()
        if entry == last:
            return
        assert entry is not None
        turns.free(entry[2])
        turns.wait(entry, tenant=entry[1], host=entry[2])  # the others never run out
    pytest.fail("the newcomer was not served")
