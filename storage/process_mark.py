"""Is the process that holds something still there? Read from /proc, as random(4) and namespaces(7) describe it."""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from pathlib import Path

from contracts.lease import ProcessMark
from sandbox.process_start import process_start

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Liveness(str, Enum):
    """What can be said from here about another process."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def this_process() -> ProcessMark:
    """The mark of the calling process."""
    pid = os.getpid()
    return ProcessMark(_boot_id(), _pid_namespace(), pid, process_start(pid))


def liveness(mark: ProcessMark) -> Liveness:
    """Whether the marked process still runs.

    A process of another boot is dead. One of another process namespace of this boot (a container beside ours) cannot
    be judged from here: its holds end when they expire. A zombie holds nothing and is dead.
    """
    if mark.boot_id != _boot_id():
        return Liveness.DEAD
    if mark.pid_namespace != _pid_namespace():
        return Liveness.UNKNOWN
    return Liveness.ALIVE if process_start(mark.pid) == mark.pid_start else Liveness.DEAD


@cache
def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())
