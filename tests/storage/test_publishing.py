"""Giving blobs their staged name: verified in every way, readable by whom settings say, and damage is set aside."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from contracts.errors import BlobMissing, IntegrityError
from storage.disk_blobs import DiskBlobStore
from storage.incoming import FileAccess
from storage.publishing import Publisher
from tests.blob_files import blob_file, overwrite_blob

ROOT = Path(__file__).parents[2]
DATA = bytes(range(256)) * 4_096


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store with one blob, `DATA`."""
    store = DiskBlobStore(tmp_path / "blobs")
    store.put(DATA)
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file is to be staged."""
    return tmp_path / "staging" / "acme" / artifact().staged_name


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system than the tests'."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        yield Path(folder)


def artifact(data: bytes = DATA) -> Artifact:
    """An artifact of these bytes."""
    return Artifact(Digest.of(data), len(data), "image/png", Modality.IMAGE)


def publish(blobs: DiskBlobStore, path: Path, access: FileAccess | None = None, of: Artifact | None = None) -> int:
    """Publish `DATA`; returns how often progress was told."""
    told: list[None] = []
    publisher = Publisher(blobs) if access is None else Publisher(blobs, access)
    publisher.publish(of or artifact(), path, lambda: told.append(None))
    return len(told)


def test_on_the_same_file_system_it_is_another_name(blobs: DiskBlobStore, path: Path) -> None:
    """Nothing is copied, and the folder can be entered by the group."""
    assert publish(blobs, path) == 0
    assert path.samefile(blob_file(blobs, artifact().digest))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


def test_on_another_it_is_a_copy(elsewhere: Path, path: Path) -> None:
    """Verified, read-only, and progress is told while it is made."""
    store = DiskBlobStore(elsewhere)
    store.put(DATA)
    assert publish(store, path) == 4
    assert path.read_bytes() == DATA
    assert path.stat().st_nlink == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o440


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another group")
@pytest.mark.parametrize(("mode", "folder"), [(0o440, 0o750), (0o444, 0o755)], ids=["group", "all"])
def test_files_and_folders_are_readable_by_whom_settings_say(
    blobs: DiskBlobStore, path: Path, mode: int, folder: int
) -> None:
    """A process of the worker's user and group reads the file; the blob's own file was not changed for it."""
    before = blob_file(blobs, artifact().digest).stat()
    publish(blobs, path, FileAccess(mode, 12_345))
    after = blob_file(blobs, artifact().digest).stat()
    assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)
    for made, bits in ((path, mode), (path.parent, folder), (path.parent.parent, 0o700)):
        assert stat.S_IMODE(made.stat().st_mode) == bits
    assert path.stat().st_gid == path.parent.stat().st_gid == 12_345
    assert not path.samefile(blob_file(blobs, artifact().digest))


READ_AS = """
import os, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(54321)
try:
    print(len(open(sys.argv[1], "rb").read()))
except PermissionError:
    print("denied")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize(("group", "told"), [(12_345, str(len(DATA))), (12_346, "denied")], ids=["member", "stranger"])
def test_the_group_reads_what_is_staged_for_it_and_nobody_else(elsewhere: Path, group: int, told: str) -> None:
    """Also where the blob's own file, made for the same group, got a second name."""
    access = FileAccess(0o440, 12_345)
    elsewhere.chmod(0o755)
    store = DiskBlobStore(elsewhere / "blobs", access=access)
    store.put(DATA)
    publisher = Publisher(store, access)
    publisher.make_folder(elsewhere / "staging")
    path = elsewhere / "staging" / "acme" / artifact().staged_name
    publisher.publish(artifact(), path, lambda: None)
    assert path.samefile(blob_file(store, artifact().digest))
    read = subprocess.run([sys.executable, "-c", READ_AS, str(path), str(group)], capture_output=True, text=True)
    assert read.stdout.strip() == told


@pytest.mark.parametrize("other", [DATA[:-1], DATA + b"x", b"?" + DATA[1:]], ids=["shorter", "longer", "changed"])
@pytest.mark.parametrize("way", ["link", "copy"])
def test_a_damaged_blob_is_not_staged_and_set_aside(
    request: pytest.FixtureRequest, tmp_path: Path, path: Path, other: bytes, way: str
) -> None:
    """From then on it is missing, until it is put again."""
    folder: Path = tmp_path / "blobs" if way == "link" else request.getfixturevalue("elsewhere")
    store = DiskBlobStore(folder)
    store.put(DATA)
    overwrite_blob(store, artifact().digest, other)
    with pytest.raises(IntegrityError):
        publish(store, path)
    assert not path.exists()
    assert [aside.digest for aside in store.quarantined()] == [artifact().digest]
    with pytest.raises(BlobMissing, match="set aside"):
        publish(store, path)
    store.put(DATA)
    publish(store, path)
    assert path.read_bytes() == DATA


def test_an_artifact_of_another_size_is_refused_and_the_blob_kept(blobs: DiskBlobStore, path: Path) -> None:
    """The blob is its digest's; it is the artifact that is wrong."""
    wrong = Artifact(artifact().digest, len(DATA) + 1, "image/png", Modality.IMAGE)
    with pytest.raises(IntegrityError, match="size"):
        publish(blobs, path, of=wrong)
    assert list(blobs.quarantined()) == []
    assert not path.exists()


@pytest.mark.parametrize("other", [DATA[:-1], DATA + b"x", b"?" + DATA[1:], b""])
def test_a_staged_file_that_is_not_whole_is_removed(blobs: DiskBlobStore, path: Path, other: bytes) -> None:
    """So that it can be made anew; a whole one is left."""
    publisher = Publisher(blobs)
    assert not publisher.is_whole(artifact(), path)
    publish(blobs, path)
    assert publisher.is_whole(artifact(), path)
    path.unlink()
    path.write_bytes(other)
    assert not publisher.is_whole(artifact(), path)
    assert not path.exists()


def test_a_link_in_the_place_of_a_staged_file_is_removed(blobs: DiskBlobStore, path: Path, tmp_path: Path) -> None:
    """Not followed, whatever it leads to."""
    publisher = Publisher(blobs)
    publisher.make_folder(path.parent)
    (tmp_path / "same").write_bytes(DATA)
    path.symlink_to(tmp_path / "same")
    assert not publisher.is_whole(artifact(), path)
    assert not path.is_symlink()
    assert (tmp_path / "same").exists()
