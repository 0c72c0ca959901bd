"""A disk that is full, that fails, or that cannot be written: typed, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import StorageError
from storage.disk_blobs import DiskBlobStore
from storage.incoming import IncomingFile

ROOT = Path(__file__).parents[2]

_BEGIN = """
import io, os, subprocess, sys
from pathlib import Path
from contracts.digest import Digest
from contracts.errors import EvidenceError
from storage.disk_blobs import DiskBlobStore
from storage.incoming import open_incoming, open_named
root = Path(sys.argv[1])
def mount(*words):
    subprocess.run(["mount", *words, root], check=True)
def files():
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
def told(action):
    try:
        action()
    except EvidenceError as error:
        print(type(error).__name__, error.rule, error.retryable)
    else:
        print("done")
"""
FULL = """
mount("-t", "tmpfs", "-o", "size=512k", "tmpfs")
store = DiskBlobStore(root, open_file={"named": open_named, "unnamed": open_incoming}[sys.argv[2]])
store.put(bytes(200_000))
told(lambda: store.put(os.urandom(900_000)))
told(lambda: store.put(io.BytesIO(os.urandom(900_000))))
print(len([name for name in files() if not name.startswith("locks/")]))
told(lambda: store.put(bytes(100_000)))
for blob in store.blobs():
    with store.open(blob.digest, blob.size_bytes) as reader:
        reader.read_to_end()
"""
FULL_SPOOL = """
from storage.s3_blobs import S3BlobStore, S3Store
from tests.services.seaweed import access_of
mount("-t", "tmpfs", "-o", "size=256k", "tmpfs")
store = S3BlobStore(access_of(sys.argv[2]), S3Store(sys.argv[3], "spooled"), spool=root / "spool")
told(lambda: store.put(io.BytesIO(os.urandom(900_000))))
print(len(files()), len(list(store.blobs())))
told(lambda: store.put(io.BytesIO(os.urandom(100_000))))
"""
FAILS_TO_READ = """
store = DiskBlobStore(root)
digest, _ = store.put(b"evidence")
path = store.local_path(digest)
subprocess.run(["mount", "--bind", f"/proc/{os.getpid()}/mem", path], check=True)
def read():
    with store.open(digest) as reader:
        reader.read_to_end()
told(read)
"""
READ_ONLY = """
store = DiskBlobStore(root)
digest, size = store.put(b"evidence")
subprocess.run(["mount", "--bind", root, root], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
store = DiskBlobStore(root)
print(store.exists(digest), [blob.digest == digest for blob in store.blobs()], list(store.quarantined()))
with store.open(digest, size) as reader:
    print(reader.read_all())
told(lambda: store.put(b"evidence"))
told(lambda: store.put(b"more"))
told(lambda: store.quarantine(digest))
told(lambda: store.condemn(digest))
"""


def in_own_mounts(program: str, *arguments: str | Path) -> list[str]:
    """What a program prints that mounts what only it sees. Skips where that is not permitted."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", _BEGIN + program]
    if os.geteuid() != 0 or subprocess.run([*command[:4], "true"], check=False).returncode:
        pytest.skip("only root, and only where the machine lets it, makes mounts")
    ended = subprocess.run(
        [*command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("kind", ["named", "unnamed"])
def test_a_full_disk_keeps_what_it_had_and_nothing_of_what_it_has_no_room_for(tmp_path: Path, kind: str) -> None:
    """By a real small file system; when there is room again, writing goes on."""
    assert in_own_mounts(FULL, tmp_path, kind) == [
        "StorageError disk-full True",
        "StorageError disk-full True",
        "1",
        "done",
    ]


def test_a_full_spool_stores_nothing_in_the_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """And leaves nothing on the disk that was full."""
    server = request.getfixturevalue("seaweed")
    bucket = server.bucket("full-spool")
    assert in_own_mounts(FULL_SPOOL, tmp_path, server.url, bucket) == ["StorageError disk-full True", "0 0", "done"]


def test_a_medium_that_cannot_be_read_is_told_apart(tmp_path: Path) -> None:
    """EIO, from the kernel: it says the same of memory that is not mapped."""
    assert in_own_mounts(FAILS_TO_READ, tmp_path) == ["StorageError disk-io True"]


def test_a_medium_that_cannot_be_written_is_told_apart_and_leaves_nothing(tmp_path: Path) -> None:
    """EIO as above, at the first byte."""

    def open_failing(_: Path) -> IncomingFile:
        return IncomingFile(os.open("/proc/self/mem", os.O_RDWR), None)

    with pytest.raises(StorageError, match="EIO") as failed:
        DiskBlobStore(tmp_path, open_file=open_failing).put(b"evidence")
    assert failed.value.rule == "disk-io"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_store_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    """All that reads works, and all that would change it says that it cannot."""
    assert in_own_mounts(READ_ONLY, tmp_path) == [
        "True [True] []",
        "b'evidence'",
        *["StorageError disk True"] * 4,
    ]
