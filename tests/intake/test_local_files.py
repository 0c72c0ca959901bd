"""Files beneath a folder: what is inside opens, what leads out does not."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contracts.digest import CHUNK_BYTES, Digest
from contracts.errors import EvidenceError, FetchError, InputError
from intake.local_files import acquire_local, open_beneath


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with good and bad things in it, and a file outside."""
    (tmp_path / "outside.txt").write_bytes(b"secret")
    inside = tmp_path / "bundle"
    (inside / "media").mkdir(parents=True)
    (inside / "media" / "a.png").write_bytes(b"bytes of a")
    (inside / "media" / "same.png").symlink_to("a.png")
    (inside / "link.txt").symlink_to("../outside.txt")
    (inside / "absolute.txt").symlink_to(tmp_path / "outside.txt")
    (inside / "up").symlink_to("..")
    (inside / "loop").symlink_to("loop")
    (inside / "magic").symlink_to("/proc/self/root")
    os.mkfifo(inside / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(inside / "socket"))
    (inside / "locked.txt").write_bytes(b"x")
    return inside


@pytest.fixture
def into() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def test_a_file_inside_opens(folder: Path) -> None:
    """A regular file inside is read; a link that stays inside may be followed."""
    with open_beneath(folder, "media/a.png", 100) as file:
        assert file.read() == b"bytes of a"
    with open_beneath(folder, "media/same.png", 100) as file:
        assert file.read() == b"bytes of a"


@pytest.mark.parametrize(
    ("relative", "error", "rule"),
    [
        ("link.txt", InputError, "path-leaves-folder"),
        ("absolute.txt", InputError, "path-leaves-folder"),
        ("up/outside.txt", InputError, "path-leaves-folder"),
        ("magic/etc/passwd", InputError, "path-leaves-folder"),
        ("loop", InputError, "path-leaves-folder"),
        ("../outside.txt", InputError, "path-leaves-folder"),
        ("media/../../outside.txt", InputError, "path-leaves-folder"),
        ("/etc/passwd", InputError, "path-leaves-folder"),
        ("", InputError, "path-leaves-folder"),
        (".", InputError, "path-leaves-folder"),
        ("a\0b", InputError, "path-leaves-folder"),
        ("media", InputError, "not-a-regular-file"),
        ("pipe", InputError, "not-a-regular-file"),
        ("socket", InputError, "not-a-regular-file"),
        ("missing.png", FetchError, "file-missing"),
        ("media/a.png/b", FetchError, "file-missing"),
        ("m" * 300, FetchError, "file-unreadable"),
    ],
)
def test_what_is_not_a_file_inside_is_refused(
    folder: Path, relative: str, error: type[EvidenceError], rule: str
) -> None:
    """By the rule that is about it, at once, also for a pipe that nobody writes."""
    with pytest.raises(EvidenceError) as refused:
        open_beneath(folder, relative, 100)
    assert (type(refused.value), refused.value.rule) == (error, rule)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """The folder itself must exist."""
    with pytest.raises(FetchError, match="file-missing"):
        open_beneath(tmp_path / "none", "a", 1)


def test_size_is_bounded(folder: Path, into: int) -> None:
    """Exactly the limit is taken, one byte more is not."""
    assert acquire_local(folder, "media/a.png", 10, into).size_bytes == 10
    with pytest.raises(FetchError, match="file-over-limit"):
        open_beneath(folder, "media/a.png", 9)


def test_a_copy_has_its_record(folder: Path, into: int) -> None:
    """The bytes are in the descriptor, whose position did not move, and the record has their digest."""
    record = acquire_local(folder, "media/a.png", 100, into)
    assert os.read(into, 100) == b"bytes of a"
    assert (record.source, record.hops, record.policy) == ("file", (), None)
    assert record.digest == Digest.of(b"bytes of a")


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")


def _overwrite_and_set_back(path: Path) -> None:
    before = path.stat()
    _overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _grow_and_shrink(path: Path) -> None:
    for size in (3 * CHUNK_BYTES, 2 * CHUNK_BYTES):
        os.truncate(path, size)


def _replace(path: Path) -> None:
    other = path.with_name("other.bin")
    other.write_bytes(b"other")
    other.replace(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "overwritten": _overwrite,
    "overwritten, its time set back": _overwrite_and_set_back,
    "truncated": lambda path: os.truncate(path, CHUNK_BYTES + 1),
    "emptied": lambda path: os.truncate(path, 0),
    "grown": lambda path: os.truncate(path, 2 * CHUNK_BYTES + 1),
    "grown and shrunk again": _grow_and_shrink,
    "replaced by another": _replace,
    "moved away": lambda path: path.rename(path.with_name("away.bin")),
    "removed": lambda path: path.unlink(),
}


@contextmanager
def once_some_was_copied(then: Callable[[], object]) -> Iterator[None]:
    """Runs `then` between the first piece that the block copies and the next: at its first call of pwrite."""
    pending = [then]

    def look(_frame: object, event: str, function: object) -> None:
        if event == "c_call" and function is os.pwrite and pending:
            pending.pop()()

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert not pending


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path, into: int, what: str) -> None:
    """Whatever is done to it after the first piece was read, also within the clock's tick of the change before."""
    path = folder / "media" / "large.bin"
    path.write_bytes(bytes(2 * CHUNK_BYTES))
    with once_some_was_copied(lambda: CHANGES[what](path)), pytest.raises(FetchError) as refused:
        acquire_local(folder, "media/large.bin", 1 << 30, into)
    assert refused.value.rule == "changed-while-read"


def test_a_file_that_grows_over_the_limit_is_read_no_further(folder: Path, into: int) -> None:
    """The bound holds for the bytes that come, not for the size it had."""
    path = folder / "media" / "large.bin"
    path.write_bytes(bytes(2 * CHUNK_BYTES))
    grow = once_some_was_copied(lambda: os.truncate(path, 1 << 40))
    with grow, pytest.raises(FetchError, match="file-over-limit"):
        acquire_local(folder, "media/large.bin", 2 * CHUNK_BYTES, into)
    assert os.fstat(into).st_size <= 2 * CHUNK_BYTES


def test_reading_is_no_change(folder: Path, into: int) -> None:
    """Neither by us nor by others, who may also swap what the path names before we open it."""
    path = folder / "media" / "large.bin"
    path.write_bytes(bytes(2 * CHUNK_BYTES))
    with once_some_was_copied(lambda: path.read_bytes()):
        record = acquire_local(folder, "media/large.bin", 1 << 30, into)
    assert record.digest == Digest.of(bytes(2 * CHUNK_BYTES))


def test_a_device_is_never_opened(folder: Path) -> None:
    """Opening some devices does something; a node is told by what it is."""
    try:
        os.mknod(folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device node needs a right that this machine does not give")
    with pytest.raises(InputError, match="not-a-regular-file"):
        open_beneath(folder, "device", 100)


def test_the_record_says_when_it_was_modified_and_what_other_names_it_has(folder: Path, into: int) -> None:
    """A second name may lie outside the folder; that cannot be told from inside, so it is recorded."""
    path = folder / "media" / "a.png"
    os.utime(path, (0, 1_780_322_518.25))
    alone = acquire_local(folder, "media/a.png", 100, into)
    assert alone.origin == {"modified_at": "2026-06-01T14:01:58.250Z"}
    (folder.parent / "second name").hardlink_to(path)
    linked = acquire_local(folder, "media/a.png", 100, into)
    assert linked.origin == {"modified_at": "2026-06-01T14:01:58.250Z", "hard_links": "2"}
    assert linked.digest == alone.digest


def test_the_walk_of_old_kernels_follows_no_link(folder: Path) -> None:
    """Where openat2 is missing each component is opened without following links, inside or out."""
    from intake.local_files import _walk

    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(_walk(root, ("media", "a.png")))
        for parts in (("media", "same.png"), ("link.txt",), ("up", "outside.txt"), ("magic", "etc", "passwd")):
            with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
                _walk(root, parts)
    finally:
        os.close(root)
