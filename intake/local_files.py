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
from contracts.receipt import timestamp
from contracts.records import AcquisitionRecord
from sandbox.linux import syscall

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_NAMED = os.O_PATH | os.O_CLOEXEC  # names the file without opening it: opening a pipe waits, a device may act
_TICK_NS = 20_000_000  # the coarsest clock that kernels stamp files by (HZ=100), twice
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EPERM, errno.E2BIG})  # an old kernel, or a container's filter


def open_beneath(folder: Path, relative: str, max_bytes: int) -> BinaryIO:
    """Open the regular file `relative` beneath `folder`, of at most `max_bytes` bytes.

    Links are followed only as long as they stay inside (openat2(2), RESOLVE_BENEATH); where the kernel lacks that, no
    link is followed at all. What is no regular file is never opened. Raises InputError `path-leaves-folder` or
    `not-a-regular-file`, FetchError `file-missing`, `file-unreadable` or `file-over-limit`.
    """
    parts = _parts(relative)
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            named = _name_parts(root, parts)
        finally:
            os.close(root)
        try:
            _check(relative, os.fstat(named), max_bytes)
            return Path(f"/proc/self/fd/{named}").open("rb", buffering=0)  # the very file that was checked
        finally:
            os.close(named)
    except OSError as error:
        raise _refusal(relative, error) from error


def acquire_local(folder: Path, relative: str, max_bytes: int, into: int) -> AcquisitionRecord:
    """Copy `relative` into the descriptor `into`, hashing what is copied.

    Raises what `open_beneath` does, and FetchError `changed-while-read` if its size or a time of it differ afterwards,
    or `file-over-limit` if it grew over the limit meanwhile. The time of the inode's change cannot be set back, and
    also tells of a file that was moved away or replaced. The record's `origin` says when the file was modified, and
    how many names it has where it has others (`hard_links`): they may lie outside the folder, and nobody can tell.
    """
    started_at, started = time.time(), time.monotonic()
    with open_beneath(folder, relative, max_bytes) as file:
        before = _settled(file.fileno())
        hasher = Hasher()
        while data := file.read(CHUNK_BYTES):
            if hasher.size_bytes + len(data) > max_bytes:
                raise FetchError("file-over-limit", f"{relative}: grew over {max_bytes} bytes while it was read")
            _write(into, data, hasher.size_bytes)
            hasher.update(data)
        after = os.fstat(file.fileno())
    if _state(before) != _state(after) or hasher.size_bytes != after.st_size:
        raise FetchError("changed-while-read", f"{relative}: {before.st_size} bytes before, {after.st_size} after")
    return AcquisitionRecord(
        source="file",
        requested=relative,
        requested_digest=Digest.of(relative.encode()),
        started_at=started_at,
        seconds=time.monotonic() - started,
        size_bytes=hasher.size_bytes,
        digest=hasher.digest(),
        origin=_origin(before),
    )


def _settled(descriptor: int) -> os.stat_result:
    """The file's state, once the clock that stamps files has left its last change behind: a change in the same tick
    would have the same stamp. Waits for a tick at most, and only where the file was changed just now."""
    status = os.fstat(descriptor)
    while abs(time.time_ns() - status.st_ctime_ns) <= _TICK_NS:
        time.sleep(0.002)
        status = os.fstat(descriptor)
    return status


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _origin(status: os.stat_result) -> dict[str, str]:
    modified = {"modified_at": timestamp(status.st_mtime)}
    return modified if status.st_nlink == 1 else {**modified, "hard_links": str(status.st_nlink)}


def _parts(relative: str) -> tuple[str, ...]:
    path = PurePosixPath(relative)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in relative:
        raise InputError("path-leaves-folder", f"expected a path inside the bundle's folder, got {relative!r}")
    return path.parts


def _name_parts(root: int, parts: tuple[str, ...]) -> int:
    """A descriptor that only names the file (O_PATH)."""
    how = struct.pack("=QQQ", _NAMED, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    try:
        return syscall(_OPENAT2, root, os.fsencode("/".join(parts)), how, len(how))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return _walk(root, parts)


def _walk(root: int, parts: tuple[str, ...]) -> int:
    """Name one component after the other, following no link."""
    current = os.dup(root)
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        try:
            inner = os.open(part, _NAMED | os.O_NOFOLLOW | (0 if last else os.O_DIRECTORY), dir_fd=current)
        finally:
            os.close(current)
        current = inner
    if stat.S_ISLNK(os.fstat(current).st_mode):  # O_PATH names a link itself
        os.close(current)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return current


def _refusal(relative: str, error: OSError) -> EvidenceError:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return InputError("path-leaves-folder", f"{relative}: a link leads out of the bundle's folder")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FetchError("file-missing", f"{relative}: there is no such file")
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
