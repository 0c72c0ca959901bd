"""What a disk refuses, in our words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import StorageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MEDIUM = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})  # the last two: checksums of btrfs, ext4 and XFS


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn OSError into StorageError: `disk-full`, `disk-io` where the medium itself fails, `disk` for all else."""
    try:
        yield
    except OSError as error:
        rule = "disk-full" if error.errno in _FULL else "disk-io" if error.errno in _MEDIUM else "disk"
        name = errno.errorcode.get(error.errno or 0, "unknown")
        raise StorageError(rule, f"{doing}: {name}") from error
