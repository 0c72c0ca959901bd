"""Files beneath a folder: what is inside opens, what leads out does not."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.digest import Digest
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


def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path, into: int) -> None:
    """A writer that keeps at it for as long as we read is noticed by time, size, or the limit."""
    path = folder / "media" / "large.bin"
    path.write_bytes(bytes(8 << 20))
    stop, writing = threading.Event(), threading.Event()

    def keep_writing() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"x")
                writing.set()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        writing.wait()
        with pytest.raises(FetchError) as refused:
            acquire_local(folder, "media/large.bin", 1 << 30, into)
        assert refused.value.rule == "changed-while-read"
    finally:
        stop.set()
        writer.join()


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
