"""The lease on a staged file: its states, and the arithmetic of holding it.

A lease says: until `expires_at`, this file stays where it is. The holder renews it every third of the time to live
and, when it could not renew for two thirds, stops by itself, a third before anybody may take the file away (the rule
of restic's locks). Expiry is a stored time compared with `now`, never a timer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from contracts.digest import Digest
from contracts.errors import LeaseError


class LeaseState(str, Enum):
    """Only `ACTIVE` protects a file."""

    ACTIVE = "active"
    RELEASED = "released"
    EXPIRED = "expired"


class LeaseEvent(str, Enum):
    """What can happen to a lease."""

    RENEW = "renew"
    RELEASE = "release"
    EXPIRE = "expire"


TRANSITIONS = {
    (LeaseState.ACTIVE, LeaseEvent.RENEW): LeaseState.ACTIVE,
    (LeaseState.ACTIVE, LeaseEvent.RELEASE): LeaseState.RELEASED,
    (LeaseState.ACTIVE, LeaseEvent.EXPIRE): LeaseState.EXPIRED,
}
"""What is not here cannot happen: a lease that ended stays ended."""


def advance(state: LeaseState, event: LeaseEvent) -> LeaseState:
    """The state after `event`. Raises LeaseError where the lease has already ended."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise LeaseError("lease-ended", f"cannot {event.value} a lease that is {state.value}")
    return following


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process, told apart from every other that ever had its number.

    `host` is the name of its host, `boot_id` the kernel's id of that boot, `pid_namespace` the namespace in which `pid`
    counts, `pid_start` the start time of the process in clock ticks since boot (field 22 of proc_pid_stat(5)).
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    pid_start: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A hold on one staged file. Times are epoch seconds.

    `staged_name` is `<hex>.<ext>` within the tenant's view, `holder` is `<run>/<attempt>`, `fence` grows with every
    lease of the ledger: what carries a smaller one is older.
    """

    id: str
    tenant: str
    digest: Digest
    staged_name: str
    holder: str
    process: ProcessMark
    fence: int
    acquired_at: float
    ttl_s: float
    expires_at: float
    state: LeaseState = LeaseState.ACTIVE

    @property
    def renewed_at(self) -> float:
        """When the time to live last began anew."""
        return self.expires_at - self.ttl_s

    def renew_due(self, now: float) -> bool:
        """Whether the holder must renew: a third of the time to live has passed."""
        return now >= self.renewed_at + self.ttl_s / 3

    def must_stop(self, now: float) -> bool:
        """Whether the holder must give up by itself: two thirds have passed without a successful renewal."""
        return now >= self.renewed_at + 2 * self.ttl_s / 3

    def expired(self, now: float) -> bool:
        """Whether anybody may take the file away."""
        return now >= self.expires_at

    def renewed(self, now: float) -> Lease:
        """This lease with a new time to live; a clock that jumped back never shortens it.

        Raises LeaseError for a lease that has ended.
        """
        state = advance(self.state, LeaseEvent.RENEW)
        return replace(self, state=state, expires_at=max(self.expires_at, now + self.ttl_s))
