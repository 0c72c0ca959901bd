"""Locks between processes and threads of one host, kept by the kernel: SIGKILL releases them too."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.disk_errors import disk_errors


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock file exclusively. Waiters queue in the kernel, so none starves (a busy handler's polling does:
    one of eight processes got one transaction in 5 s while another had 5,707).

    Unlocked before it is closed: a child forked meanwhile would otherwise keep the lock with its copy of the
    descriptor. Not for network file systems, where flock may do nothing. Raises StorageError.
    """
    with disk_errors(f"open {path.name}"):
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with disk_errors(f"lock {path.name}"):
            fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)
