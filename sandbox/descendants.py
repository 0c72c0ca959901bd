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


def children() -> set[int]:
    """The children of all threads of this process, zombies too (proc_tid_children(5))."""
    found: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, listing.read_text().split()))
    return found


def end_orphans(own: Collection[int]) -> int:
    """Kill and reap the children that are not `own`; returns how many were still alive. Needs every start of a child
    to be in `own` before the next call, so both belong to one thread."""
    ended = 0
    for pid in children() - set(own):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
            ended += os.WIFSIGNALED(status)
    return ended


def end_all() -> None:
    """Kill and reap every child, and what they leave, until there is none."""
    while children():
        end_orphans(())
