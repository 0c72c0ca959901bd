"""Admission by weight, as arithmetic: who may go in, first come first served.

Requests weigh what they cost a worker (a clip more than a line of text). The head of the queue is never overtaken:
a heavy request that does not fit yet holds back lighter ones behind it, so it cannot starve. Nothing here waits;
inference/pool does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from contracts.errors import InputError


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in the queue; `ticket` is the caller's name for it."""

    ticket: int
    weight: int


@dataclass(frozen=True, slots=True)
class Admission:
    """`capacity` units, of which `used` are held, and the queue in order of arrival."""

    capacity: int
    used: int = 0
    queue: tuple[Waiting, ...] = ()

    def __post_init__(self) -> None:
        if self.capacity < 1 or not 0 <= self.used <= self.capacity:
            raise InputError(
                "admission-capacity", f"expected 0 <= used <= capacity, got {self.used} of {self.capacity}"
            )

    def ask(self, ticket: int, weight: int) -> Admission:
        """With a request at the end of the queue.

        Raises InputError (`admission-weight`) for one that could never be admitted.
        """
        if not 1 <= weight <= self.capacity:
            raise InputError("admission-weight", f"expected a weight of 1 to {self.capacity}, got {weight}")
        return replace(self, queue=(*self.queue, Waiting(ticket, weight)))

    def grant(self) -> tuple[Admission, tuple[Waiting, ...]]:
        """What goes in now: the longest prefix of the queue that fits."""
        used = self.used
        count = 0
        for waiting in self.queue:
            if used + waiting.weight > self.capacity:
                break
            used += waiting.weight
            count += 1
        return replace(self, used=used, queue=self.queue[count:]), self.queue[:count]

    def release(self, weight: int) -> Admission:
        """With `weight` units given back. Raises InputError when more comes back than was held."""
        return replace(self, used=self.used - weight)

    def withdraw(self, ticket: int) -> Admission:
        """Without a request that no longer waits; nothing changes where it is not in the queue."""
        return replace(self, queue=tuple(waiting for waiting in self.queue if waiting.ticket != ticket))
