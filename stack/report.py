"""What the supervisor says of itself and its parts, in a file: whoever asks reads it, and judges it by the lock.

The lock is the kernel's word that a supervisor lives; the file only says which. Numbers of processes are always
compared with their start times.
"""

from __future__ import annotations

import fcntl
import os
import time
from enum import Enum
from pathlib import Path

import msgspec

from sandbox.process_start import process_start
from stack.folder import StackFolder

_LOCK_TRIES = 20
_LOCK_PAUSE_S = 0.05


class Phase(str, Enum):
    """Of the whole stack."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class PartState(str, Enum):
    """Of one part."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DIED = "died"
    STOPPED = "stopped"


class PartEvent(str, Enum):
    """What can happen to a part."""

    START = "start"
    ANSWER = "answer"
    DIE = "die"
    STOP = "stop"


TRANSITIONS = {
    (PartState.WAITING, PartEvent.START): PartState.STARTING,
    (PartState.STARTING, PartEvent.ANSWER): PartState.READY,
    (PartState.STARTING, PartEvent.DIE): PartState.DIED,
    (PartState.READY, PartEvent.DIE): PartState.DIED,
    (PartState.DIED, PartEvent.START): PartState.STARTING,
    **{(state, PartEvent.STOP): PartState.STOPPED for state in PartState},
}
"""What is not here cannot happen."""


def advance(state: PartState, event: PartEvent) -> PartState:
    """The state of a part after `event`. Raises KeyError for what cannot happen."""
    return TRANSITIONS[state, event]


class ProcessOf(msgspec.Struct, frozen=True):
    """A process by its number and its start in clock ticks since boot."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessOf:
        """The process that has this number now."""
        return cls(pid, process_start(pid))

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return self.start != 0 and process_start(self.pid) == self.start


class PartReport(msgspec.Struct, frozen=True):
    """One part. `restarts` counts how often it was started again after it had died."""

    name: str
    state: PartState
    process: ProcessOf | None
    url: str
    restarts: int
    reason: str
    log: str


class StackReport(msgspec.Struct, frozen=True):
    """The stack. Times are epoch seconds. `guardian` sweeps what the supervisor leaves."""

    phase: Phase
    reason: str
    since: float
    supervisor: ProcessOf
    guardian: ProcessOf
    ports: dict[str, int]
    parts: tuple[PartReport, ...]

    @property
    def is_ready(self) -> bool:
        """Whether the stack is up with every part of it."""
        return self.phase is Phase.UP and all(part.state is PartState.READY for part in self.parts)

    def processes(self) -> dict[str, ProcessOf]:
        """All processes it names."""
        parts = {part.name: part.process for part in self.parts if part.process is not None}
        return {"supervisor": self.supervisor, "guardian": self.guardian} | parts


def write_report(path: Path, report: StackReport) -> None:
    """Put the report in place of the one before."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(report))
    os.replace(partial, path)  # noqa: PTH105  # atomic: a reader sees the old report or the new one


def last_report(folder: StackFolder) -> StackReport | None:
    """What a supervisor last said, which may be long dead."""
    try:
        return msgspec.json.decode(folder.report.read_bytes(), type=StackReport)
    except (OSError, msgspec.MsgspecError):
        return None


def running_report(folder: StackFolder) -> StackReport | None:
    """What the supervisor that lives now says; None where none does, or where it has not said anything yet."""
    if not is_supervised(folder):
        return None
    report = last_report(folder)
    return report if report is not None and report.supervisor.is_alive else None


def is_supervised(folder: StackFolder) -> bool:
    """Whether a supervisor holds the lock."""
    try:
        with folder.lock.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def take_lock(folder: StackFolder) -> int | None:
    """The lock's descriptor, to be kept open; None where another supervisor has it.

    Who only looks holds the lock for a moment too, so a refusal counts when it lasts."""
    descriptor = os.open(folder.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        else:
            return descriptor
    os.close(descriptor)
    return None
