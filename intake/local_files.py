"""Files inside a bundle's folder, and nothing else: no way out by `..`, by links or by special files."""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from contracts.digest import CHUNK_BYTES, Digest, Hasher
from contracts.errors import EvidenceError, FetchError, InputError, StorageError
from contracts.records import AcquisitionRecord
from sandbox.linux import syscall

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe must not make us wait for its writer
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EPERM, errno.E2BIG})  # an old kernel, or a container's filter


def open_beneath(folder: Path, relative: str, max_bytes: int) -> BinaryIO:
    """Open the regular file `relative` beneath `folder`, of at most `max_bytes` bytes.

    Links are followed only as long as they stay inside (openat2(2), RESOLVE_BENEATH); where the kernel lacks that, no
    link is followed at all. Raises InputError `path-leaves-folder` or `not-a-regular-file`, FetchError `file-missing`,
    `file-unreadable` or `file-over-limit`.
    """
    parts = _parts(relative)
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            descriptor = _open_parts(root, parts)
        finally:
            os.close(root)
    except OSError as error:
        raise _refusal(relative, error) from error
    try:
        _check(relative, os.fstat(descriptor), max_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb", buffering=0)


def acquire_local(folder: Path, relative: str, max_bytes: int, into: int) -> AcquisitionRecord:
    """Copy `relative` into the descriptor `into`, hashing what is copied.

    Raises what `open_beneath` does, and FetchError `changed-while-read` if size or time of modification differ
    afterwards, or `file-over-limit` if it grew over the limit meanwhile.
    """
    started_at, started = time.time(), time.monotonic()
    with open_beneath(folder, relative, max_bytes) as file:
        before = os.fstat(file.fileno())
        hasher = Hasher()
        while data := file.read(CHUNK_BYTES):
            if hasher.size_bytes + len(data) > max_bytes:
                raise FetchError("file-over-limit", f"{relative}: grew over {max_bytes} bytes while it was read")
            _write(into, data, hasher.size_bytes)
            hasher.update(data)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or hasher.size_bytes != after.st_size:
        raise FetchError("changed-while-read", f"{relative}: {before.st_size} bytes before, {after.st_size} after")
    return AcquisitionRecord(
        source="file",
        requested=relative,
        requested_digest=Digest.of(relative.encode()),
        started_at=started_at,
        seconds=time.monotonic() - started,
        size_bytes=hasher.size_bytes,
        digest=hasher.digest(),
    )


def _parts(relative: str) -> tuple[str, ...]:
    path = PurePosixPath(relative)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in relative:
        raise InputError("path-leaves-folder", f"expected a path inside the bundle's folder, got {relative!r}")
    return path.parts


def _open_parts(root: int, parts: tuple[str, ...]) -> int:
    how = struct.pack("=QQQ", _FLAGS, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    try:
        return syscall(_OPENAT2, root, os.fsencode("/".join(parts)), how, len(how))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return _walk(root, parts)


def _walk(root: int, parts: tuple[str, ...]) -> int:
    """Open one component after the other, following no link."""
    current = os.dup(root)
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        flags = _FLAGS if last else os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = inner
    return current


def _refusal(relative: str, error: OSError) -> EvidenceError:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return InputError("path-leaves-folder", f"{relative}: a link leads out of the bundle's folder")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FetchError("file-missing", f"{relative}: there is no such file")
    if error.errno == errno.ENXIO:
        return InputError("not-a-regular-file", f"{relative}: expected a regular file")
    return FetchError("file-unreadable", f"{relative}: cannot be opened (errno {error.errno})")


def _check(relative: str, status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputError("not-a-regular-file", f"{relative}: expected a regular file")
    if status.st_size > max_bytes:
        raise FetchError("file-over-limit", f"{relative}: expected at most {max_bytes} bytes, got {status.st_size}")


def _write(into: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    try:
        while view:
            written = os.pwrite(into, view, offset)
            view, offset = view[written:], offset + written
    except OSError as error:
        raise StorageError("quarantine", f"cannot write (errno {error.errno})") from error
