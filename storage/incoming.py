"""Files that do not exist yet: written whole, made durable, and only then given a name.

An unnamed file (O_TMPFILE) vanishes with its process, whatever kills it. Where the file system has none, a named one
carries its writer's process number and start time, so that the collector can tell a dead writer's from a live one's.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.process_start import process_start
from storage.disk_errors import disk_errors

PREFIX = ".incoming-"
_WRITER = re.compile(re.escape(PREFIX) + r"(\d+)-(\d+)-")
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_OPEN_FILES = "/proc/self/fd"


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Who may read published files: the mode, which nobody writes by, and the group; None leaves it as it comes."""

    mode: int = 0o440
    group: int | None = None

    def holds_for(self, found: os.stat_result) -> bool:
        """Whether a file that exists can be read by just those."""
        return stat.S_IMODE(found.st_mode) == self.mode and self.group in (None, found.st_gid)


OURS = FileAccess()
"""Nobody but we and our group, as it comes."""


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """An open file without a final name. `name` is None for one that has no name at all."""

    fd: int
    name: Path | None

    def write(self, data: bytes) -> None:
        """Append all of `data`; a short write is continued."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def publish(self, final: Path, access: FileAccess = OURS) -> bool:
        """Make the bytes durable and give them their name. False if the name is taken: it is never replaced."""
        if access.group is not None:
            os.fchown(self.fd, -1, access.group)
        os.fchmod(self.fd, access.mode)
        os.fdatasync(self.fd)
        try:
            self._link(final)
        except FileExistsError:
            return False
        finally:
            sync_directory(final.parent)
        return True

    def replace(self, final: Path) -> None:
        """Make the bytes durable and put them in the place of whatever has the name."""
        aside = _own_name(final.parent)
        self.publish(aside)
        aside.replace(final)
        sync_directory(final.parent)

    def _link(self, final: Path) -> None:
        if self.name is not None:
            os.link(self.name, final)
            return
        # os.link takes linkat(2), which alone can follow the descriptor's link, only when it is given a src_dir_fd.
        source = f"{_OPEN_FILES}/{self.fd}"
        os.link(source, final, src_dir_fd=self.fd, follow_symlinks=True)


OpenIncoming = Callable[[Path], IncomingFile]


def open_unnamed(directory: Path) -> IncomingFile:
    """A file of `directory`'s file system that has no name."""
    return IncomingFile(os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), None)


def open_named(directory: Path) -> IncomingFile:
    """A file in `directory` whose name says who writes it."""
    name = _own_name(directory)
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return IncomingFile(os.open(name, flags, 0o600), name)


def _own_name(directory: Path) -> Path:
    pid = os.getpid()
    return directory / f"{PREFIX}{pid}-{process_start(pid)}-{secrets.token_hex(8)}"


def open_incoming(directory: Path) -> IncomingFile:
    """An unnamed file, or a named one where the file system has no unnamed ones."""
    try:
        return open_unnamed(directory)
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
    return open_named(directory)


@contextmanager
def incoming(directory: Path, open_file: OpenIncoming = open_incoming) -> Iterator[IncomingFile]:
    """A new file that is gone at the end of the block unless it was published. Raises StorageError."""
    with disk_errors("open an incoming file"):
        file = open_file(directory)
    try:
        yield file
    finally:
        os.close(file.fd)
        if file.name is not None:
            with suppress(FileNotFoundError):
                file.name.unlink()


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(directory: Path, mode: int) -> None:
    """Create `directory` with its parents, durably. One that exists is left as it is."""
    if directory.is_dir():
        return
    make_directory(directory.parent, mode)
    with suppress(FileExistsError):
        directory.mkdir(mode=mode)
        sync_directory(directory.parent)


def abandoned(directory: Path) -> Iterator[Path]:
    """The named incoming files in `directory` whose writer is dead."""
    for path in directory.glob(f"{PREFIX}*"):
        writer = _WRITER.match(path.name)
        if writer is None or process_start(int(writer[1])) != int(writer[2]):
            yield path


def remove_abandoned(directory: Path) -> int:
    """Unlink the named incoming files in `directory` whose writer is dead; returns how many."""
    removed = 0
    for path in abandoned(directory):
        with suppress(FileNotFoundError):
            path.unlink()
            removed += 1
    return removed
