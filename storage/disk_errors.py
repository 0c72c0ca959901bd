"""What a disk refuses, in our words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import StorageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn OSError into StorageError: the rule tells a full disk from a broken one."""
    try:
        yield
    except OSError as error:
        rule = "disk-full" if error.errno in _FULL else "disk"
        name = errno.errorcode.get(error.errno or 0, "unknown")
        raise StorageError(rule, f"{doing}: {name}") from error
