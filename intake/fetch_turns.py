"""Whose turn it is: which waiting fetch gets the next slot. A decision alone, without a clock or an event loop.

There are so many slots in all and so many of one host. Tenants take turns, and within a tenant its hosts: who was
served last comes last. A host has a row of its own of the tenants that want it, since its slots may be scarce where
those in all are not: who is first there may be passed over, because it was served elsewhere, as many times as there are
tenants, and then the slot is its own.

So nobody starves, and how many others wait does not matter. Among T tenants one is served after 2 T others at most,
each time with the host that it waited for longest among those with a free slot; a host serves it after at most T * T
others. A host that never answers holds its own slots only.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket")


@dataclass(slots=True)
class _Host:
    """A host that is fetched from or waited for: its slots in use, the tenants that wait, the next one first, and how
    often that one was passed over."""

    in_use: int = 0
    passed: int = 0
    tenants: OrderedDict[str, None] = field(default_factory=OrderedDict)


class FetchTurns(Generic[Ticket]):
    """Waiting tickets, and slots in use. At most `slots` of them at a time, at most `per_host` of one host."""

    def __init__(self, slots: int, per_host: int) -> None:
        self._slots = slots
        self._per_host = per_host
        self._in_use = 0
        self._hosts: dict[str, _Host] = {}
        self._tenants: OrderedDict[str, OrderedDict[str, deque[Ticket]]] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(tickets) for hosts in self._tenants.values() for tickets in hosts.values())

    def wait(self, ticket: Ticket, *, tenant: str, host: str) -> None:
        """`ticket` waits for a slot of `host`, behind those that its tenant has waiting there."""
        self._tenants.setdefault(tenant, OrderedDict()).setdefault(host, deque()).append(ticket)
        self._hosts.setdefault(host, _Host()).tenants.setdefault(tenant)

    def give_up(self, ticket: Ticket, *, tenant: str, host: str) -> None:
        """`ticket` does not wait any more. Raises ValueError if it did not."""
        self._tenants[tenant][host].remove(ticket)
        self._forget(tenant, host)

    def serve(self) -> Ticket | None:
        """Give a slot to whose turn it is; None if no slot is free that anybody waits for."""
        if self._in_use >= self._slots:
            return None
        for tenant, hosts in self._tenants.items():
            for host in hosts:
                if self._hosts[host].in_use < self._per_host:
                    return self._give(tenant, host)
        return None

    def free(self, host: str) -> None:
        """A slot of `host` is free again."""
        self._in_use -= 1
        self._hosts[host].in_use -= 1
        self._drop_idle(host)

    def _give(self, tenant: str, host: str) -> Ticket:
        """A slot of `host` to `tenant`, whose turn it is, or to who was passed over there too often."""
        wanted = self._hosts[host]
        first = next(iter(wanted.tenants))
        if first == tenant:
            wanted.passed = 0
        elif wanted.passed < len(self._tenants):
            wanted.passed += 1
        else:
            wanted.passed = 0
            return self._take(first, host)
        self._tenants.move_to_end(tenant)
        return self._take(tenant, host)

    def _take(self, tenant: str, host: str) -> Ticket:
        wanted, hosts = self._hosts[host], self._tenants[tenant]
        ticket = hosts[host].popleft()
        self._in_use += 1
        wanted.in_use += 1
        wanted.tenants.move_to_end(tenant)
        hosts.move_to_end(host)
        self._forget(tenant, host)
        return ticket

    def _forget(self, tenant: str, host: str) -> None:
        """A tenant that waits for nothing of a host stands in no row there."""
        hosts = self._tenants[tenant]
        if hosts[host]:
            return
        del hosts[host]
        del self._hosts[host].tenants[tenant]
        if not hosts:
            del self._tenants[tenant]
        self._drop_idle(host)

    def _drop_idle(self, host: str) -> None:
        found = self._hosts[host]
        if not found.in_use and not found.tenants:
            del self._hosts[host]
