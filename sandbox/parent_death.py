"""A child's first act: ask the kernel to kill it when its parent ends."""

from __future__ import annotations

import os
import signal

from sandbox.linux import PR_SET_PDEATHSIG, prctl


def die_with_parent(expected_parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send this process `number` when the thread that started it ends; exit now if `expected_parent` is already gone.

    The kernel clears the setting on a change of user and on set-user-ID exec (prctl(2)), so it is repeated after a
    drop of rights; it survives a plain exec.
    """
    prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != expected_parent:
        raise SystemExit(f"parent {expected_parent} is gone")
