"""What an attempt holds while it is submitted: its leases, renewed together and let go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from contracts.artifact import Artifact
from contracts.lease import Lease


@dataclass(frozen=True, slots=True)
class Held:
    """A lease and the file that it protects."""

    lease: Lease
    path: Path


class _Leaser(Protocol):
    def renew_all(self, leases: Sequence[Lease], now: float) -> tuple[Lease, ...]: ...

    def release_lease(self, lease: Lease, now: float) -> bool: ...


class Hold:
    """The leases of one attempt. `paths` has one entry per artifact asked for, in order; `leases` one per file.

    Not safe between threads: one at a time calls it. Release it shielded from cancellation, or the leases stay until
    they expire.
    """

    def __init__(self, leaser: _Leaser) -> None:
        self._leaser = leaser
        self._held: dict[str, Held] = {}
        self._order: list[str] = []

    def __repr__(self) -> str:
        return f"<Hold leases={len(self._held)}>"

    @property
    def paths(self) -> tuple[Path, ...]:
        """The staged files, in the order of the artifacts."""
        return tuple(self._held[name].path for name in self._order)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases, in the order in which they were acquired."""
        return tuple(held.lease for held in self._held.values())

    def reuse(self, artifact: Artifact) -> bool:
        """Name a file that is already held once more; False if it is not."""
        if artifact.staged_name not in self._held:
            return False
        self._order.append(artifact.staged_name)
        return True

    def add(self, held: Held) -> None:
        """Take over a lease."""
        self._held[held.lease.staged_name] = held
        self._order.append(held.lease.staged_name)

    def renew_due(self, now: float) -> bool:
        """Whether a lease must be renewed."""
        return any(lease.renew_due(now) for lease in self.leases)

    def must_stop(self, now: float) -> bool:
        """Whether the holder must give up, for it could not renew in time."""
        return any(lease.must_stop(now) for lease in self.leases)

    def renew(self, now: float) -> None:
        """Renew all. Raises LeaseError if one was lost: what reads the files must stop."""
        renewed = self._leaser.renew_all(self.leases, now)
        self._held = {lease.staged_name: Held(lease, self._held[lease.staged_name].path) for lease in renewed}

    def release(self, now: float) -> None:
        """Let go of all; again does nothing."""
        while self._held:
            name = next(reversed(self._held))
            self._leaser.release_lease(self._held[name].lease, now)
            del self._held[name]
        self._order.clear()
