"""The blob store on disk: durable, create-once, read-only, and never lying."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.digest import Digest
from contracts.errors import BlobMissing, IntegrityError, StorageError
from storage.disk_blobs import DiskBlobStore
from storage.incoming import IncomingFile, OpenIncoming, open_incoming, open_named, remove_abandoned

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[open_incoming, open_named], ids=["unnamed incoming files", "named incoming files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DiskBlobStore:
    """A store, with either kind of incoming file."""
    opener: OpenIncoming = request.param
    return DiskBlobStore(tmp_path / "blobs", open_file=opener)


def files(folder: Path) -> list[Path]:
    """Every file beneath a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=5_000))
def test_what_is_put_is_what_is_opened(data: bytes) -> None:
    """put then open is the identity, and the size and digest are those of the bytes."""
    with tempfile.TemporaryDirectory() as folder:
        blobs = DiskBlobStore(Path(folder))
        digest, size_bytes = blobs.put(data)
        assert (digest, size_bytes) == (Digest.of(data), len(data))
        with blobs.open(digest, size_bytes) as reader:
            assert reader.read_all() == data


def test_a_blob_is_one_read_only_file_named_by_its_whole_digest(store: DiskBlobStore, tmp_path: Path) -> None:
    """Folders are closed to others, the file is 0440 and nothing else is left."""
    digest, _ = store.put(b"bytes")
    path = tmp_path / "blobs" / "sha256" / digest.hex[:2] / digest.hex
    assert files(tmp_path) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o440
    assert all(stat.S_IMODE(parent.stat().st_mode) == 0o700 for parent in path.parents[:3])
    assert store.local_path(digest) == path


def test_the_same_bytes_are_stored_once(store: DiskBlobStore, tmp_path: Path) -> None:
    """A second put finds the first one's file and leaves it alone."""
    digest, _ = store.put(b"bytes")
    path = store.local_path(digest)
    assert path is not None
    inode = path.stat().st_ino
    assert store.put(b"bytes")[0] == digest
    assert path.stat().st_ino == inode
    assert [blob.digest for blob in store.blobs()] == [digest]


def test_writers_of_the_same_bytes_do_not_disturb_each_other(store: DiskBlobStore, tmp_path: Path) -> None:
    """Eight at once all succeed, and one whole file is there."""
    data = os.urandom(300_000)
    with ThreadPoolExecutor(8) as pool:
        digests = {digest for digest, _ in pool.map(lambda _: store.put(data), range(24))}
    assert digests == {Digest.of(data)}
    assert [path.read_bytes() for path in files(tmp_path)] == [data]


def test_unexpected_bytes_are_refused_and_leave_nothing(store: DiskBlobStore, tmp_path: Path) -> None:
    """A digest that was promised must be kept."""
    with pytest.raises(IntegrityError, match="digest"):
        store.put(io.BytesIO(b"other"), expected=Digest.of(b"bytes"))
    assert files(tmp_path) == []


def test_a_source_that_breaks_leaves_nothing(store: DiskBlobStore, tmp_path: Path) -> None:
    """The source's own error passes through."""

    class Breaks:
        def read(self, limit: int, /) -> bytes:
            raise ConnectionError(f"the source broke before {limit} bytes")

    with pytest.raises(ConnectionError):
        store.put(Breaks())
    assert files(tmp_path) == []


def test_a_flipped_byte_is_found_when_it_is_read(store: DiskBlobStore) -> None:
    """The reader refuses at the end; it never ends quietly."""
    digest, size_bytes = store.put(b"x" * 100)
    flip(store, digest, 50)
    with store.open(digest, size_bytes) as reader, pytest.raises(IntegrityError, match=digest.hex):
        reader.read_all()


def flip(store: DiskBlobStore, digest: Digest, position: int) -> None:
    """Change one byte of a blob in place."""
    path = store.local_path(digest)
    assert path is not None
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


def test_a_damaged_blob_is_healed_by_the_next_put(store: DiskBlobStore, tmp_path: Path) -> None:
    """Bytes that are already there are looked at before they count as there."""
    data = b"x" * 100
    digest, size_bytes = store.put(data)
    flip(store, digest, 3)
    store.put(data)
    with store.open(digest, size_bytes) as reader:
        assert reader.read_all() == data
    assert [blob.digest for blob in store.quarantined()] == [digest]


@pytest.mark.parametrize("kind", ["a pipe", "a link to the same bytes", "a link to a device", "a folder"])
def test_only_a_file_is_read_as_a_blob(store: DiskBlobStore, tmp_path: Path, kind: str) -> None:
    """What would lead elsewhere or never end is no blob: an integrity error at once."""
    digest, _ = store.put(b"evidence")
    path = store.local_path(digest)
    assert path is not None
    path.unlink()
    (tmp_path / "same").write_bytes(b"evidence")
    make: dict[str, Callable[[], None]] = {
        "a pipe": lambda: os.mkfifo(path),
        "a link to the same bytes": lambda: path.symlink_to(tmp_path / "same"),
        "a link to a device": lambda: path.symlink_to("/dev/zero"),
        "a folder": path.mkdir,
    }
    make[kind]()
    with pytest.raises(IntegrityError, match="not-regular"):
        store.open(digest)


def test_a_missing_blob_is_named(store: DiskBlobStore) -> None:
    """It is missing, not broken, and a retry will not help."""
    digest = Digest.of(b"never put")
    assert not store.exists(digest)
    assert store.local_path(digest) is None
    with pytest.raises(BlobMissing, match=str(digest)) as missing:
        store.open(digest)
    assert not missing.value.retryable


def test_a_full_disk_is_told_apart_and_leaves_nothing(tmp_path: Path) -> None:
    """ENOSPC, from the kernel's own full device."""

    def open_full(_: Path) -> IncomingFile:
        return IncomingFile(os.open("/dev/full", os.O_WRONLY), None)

    store = DiskBlobStore(tmp_path, open_file=open_full)
    with pytest.raises(StorageError, match="ENOSPC") as full:
        store.put(b"bytes")
    assert full.value.rule == "disk-full"
    assert files(tmp_path) == []


PUT_UNTIL_LIMIT = """
import resource, sys
from pathlib import Path
from contracts.errors import StorageError
from storage.disk_blobs import DiskBlobStore
from storage.incoming import open_named
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    DiskBlobStore(Path(sys.argv[1]), open_file=open_named).put(bytes(250_000))
except StorageError as error:
    print(error.rule)
"""


def test_a_write_that_is_cut_short_half_way_leaves_nothing(tmp_path: Path) -> None:
    """A file size limit makes the kernel write a part first and refuse the rest."""
    told = subprocess.run(
        [sys.executable, "-c", PUT_UNTIL_LIMIT, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "disk-full"
    assert files(tmp_path) == []


DIE_WRITING = """
import os, signal, sys
from pathlib import Path
from storage.disk_blobs import DiskBlobStore
from storage.incoming import open_named, open_incoming
class Dies:
    left = 2
    def read(self, limit):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return b"half"
DiskBlobStore(Path(sys.argv[1]), open_file={"named": open_named, "unnamed": open_incoming}[sys.argv[2]]).put(Dies())
"""


@pytest.mark.parametrize(("kind", "left"), [("unnamed", 0), ("named", 1)], ids=["unnamed", "named"])
def test_a_writer_that_is_killed_leaves_at_most_what_the_collector_knows(tmp_path: Path, kind: str, left: int) -> None:
    """An unnamed file goes with its process; a named one is recognised as a dead writer's, a live one's is kept."""
    subprocess.run([sys.executable, "-c", DIE_WRITING, str(tmp_path), kind], cwd=ROOT, check=False)
    assert len(files(tmp_path)) == left
    alive = open_named(tmp_path / "sha256")
    assert remove_abandoned(tmp_path / "sha256") == left
    assert files(tmp_path) == [alive.name]
    os.close(alive.fd)
