"""Bytes that cannot change any more: a memory file, hashed while it is filled, then sealed.

What was hashed is what the decoder reads, whatever happens to the file it came from (memfd_create(2), F_ADD_SEALS in
fcntl(2)).
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

from contracts.digest import CHUNK_BYTES, Digest, Hasher
from contracts.errors import MediaRejected, StorageError

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Sealed:
    """An open, sealed memory file of `size_bytes` bytes with `digest`; `head` are its first bytes."""

    descriptor: int
    digest: Digest
    size_bytes: int
    head: bytes

    def close(self) -> None:
        """Give the memory back. The object is of no use afterwards."""
        os.close(self.descriptor)


def unreadable(error: OSError) -> StorageError:
    """What keeps a medium from being read or held here, as a StorageError `medium-unreadable`."""
    return StorageError("medium-unreadable", f"{type(error).__name__} (errno {error.errno})")


def seal(source: int, *, max_bytes: int) -> Sealed:
    """Copy all of `source` (a seekable descriptor; its position does not matter) into a sealed memory file.

    Raises MediaRejected `encoded-bytes` at the first byte over `max_bytes`, StorageError if reading fails.
    """
    try:
        descriptor = os.memfd_create("medium", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise unreadable(error) from error
    try:
        hasher, head = _fill(descriptor, source, max_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except OSError as error:
        os.close(descriptor)
        raise unreadable(error) from error
    except BaseException:
        os.close(descriptor)
        raise
    return Sealed(descriptor, hasher.digest(), hasher.size_bytes, head)


def _fill(descriptor: int, source: int, max_bytes: int) -> tuple[Hasher, bytes]:
    hasher, head = Hasher(), b""
    while data := os.pread(source, CHUNK_BYTES, hasher.size_bytes):
        if hasher.size_bytes + len(data) > max_bytes:
            raise MediaRejected("encoded-bytes", f"more than {max_bytes} bytes")
        hasher.update(data)
        head = head or data
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
    return hasher, head
