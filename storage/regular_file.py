"""Opening what must be a file, where somebody may have put something else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from contracts.errors import IntegrityError


def open_regular(path: str, flags: int) -> int:
    """An `opener` for `open`. A link, pipe or device could lead elsewhere or never end: IntegrityError."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise IntegrityError("not-regular", f"a link stands where {Path(path).name} should be") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IntegrityError("not-regular", f"something that is no file stands where {Path(path).name} should be")
    return descriptor
