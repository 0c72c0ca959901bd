"""Is the process that holds something still there? Read from /proc, as random(4) and namespaces(7) describe it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
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


def this_process(host: str) -> ProcessMark:
    """The mark of the calling process, on this host of that name."""
    pid = os.getpid()
    return ProcessMark(host, boot_id(), _pid_namespace(), pid, process_start(pid))


def liveness(mark: ProcessMark, host: str, gone: Collection[str] = ()) -> Liveness:
    """Whether the marked process still runs, as this host, of that name, can tell; `gone` hosts are gone for good,
    as somebody said who knows.

    A process of another host cannot be judged from here, whatever its boot. One of another boot of this host is dead.
    One of another process namespace (a container beside ours) cannot be judged either: its holds end when they expire.
    A zombie holds nothing and is dead.
    """
    if mark.host != host:
        return Liveness.DEAD if mark.host in gone else Liveness.UNKNOWN
    if mark.boot_id != boot_id():
        return Liveness.DEAD
    if mark.pid_namespace != _pid_namespace():
        return Liveness.UNKNOWN
    return Liveness.ALIVE if process_start(mark.pid) == mark.pid_start else Liveness.DEAD


def boot_clock_s() -> float:
    """Seconds since boot, also those that the host slept through: the clock that nobody can set (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """The kernel's id of this boot."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())
