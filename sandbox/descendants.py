"""What our children leave behind: adopted when their parent dies, and ended, in whatever session or group they are.

A process group is left by setsid(2), and the parent-death signal reaches the next generation only. A child subreaper
(prctl(2)) becomes the parent of every orphan below it, so that to end all children until there are none ends all.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

from sandbox.linux import PR_SET_CHILD_SUBREAPER, prctl


def adopt_orphans() -> None:
    """From now on every orphan below this process becomes its child."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def children(of: int | str = "self") -> set[int]:
    """The children of all threads of a process, zombies too (proc_tid_children(5))."""
    found: set[int] = set()
    for listing in Path(f"/proc/{of}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, listing.read_text().split()))
    return found


class Orphans:
    """The children that we adopted: asked to end (SIGTERM to their group) when they are first seen, killed `grace_s`
    seconds later."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._until: dict[int, float] = {}

    def tend(self, own: Collection[int], now: float) -> int:
        """Look after every child that is not `own`; returns how many still run. `now` is monotonic.

        Whoever starts a child has it in `own` before the next call, so both belong to one thread."""
        for pid in children() - set(own):
            if pid not in self._until:
                self._until[pid] = now + self._grace_s
                signal_group(pid, signal.SIGTERM)
            elif now >= self._until[pid]:
                signal_group(pid, signal.SIGKILL)
            if _is_reaped(pid):
                del self._until[pid]
        return len(self._until)


def end_all() -> None:
    """Kill and reap every child, and what they leave, until there is none."""
    while found := children():
        for pid in found:
            signal_group(pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def signal_group(pid: int, number: signal.Signals) -> None:
    """To the whole group where `pid` leads one. Until it is reaped, its number is no other's."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True
