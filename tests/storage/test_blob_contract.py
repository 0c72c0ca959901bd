"""What every store of blobs keeps: the same tests for each backend, none of which knows which one it has."""

from __future__ import annotations

import io
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.digest import Digest
from contracts.errors import BlobMissing, IntegrityError
from contracts.ports import BlobBackend
from storage.disk_blobs import DiskBlobStore
from storage.s3_blobs import S3BlobStore, S3Store
from tests.blob_files import overwrite_blob
from tests.services.seaweed import Seaweed, access_of

SETTLE_S = 0.4
DATA = bytes(range(256)) * 300


@dataclass(frozen=True)
class Backend:
    """A store, another opening of the same one, and how its bytes are changed behind its back."""

    blobs: BlobBackend
    again: BlobBackend
    overwrite: Callable[[Digest, bytes], None]


def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Blobs in a folder."""
    blobs = DiskBlobStore(tmp_path / "blobs")
    return Backend(blobs, DiskBlobStore(tmp_path / "blobs"), lambda digest, data: overwrite_blob(blobs, digest, data))


def in_a_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Blobs in a bucket of a real server, below a prefix and a tenant's step."""
    server: Seaweed = request.getfixturevalue("seaweed")
    # One bucket for all: each takes volumes of the server for itself, which has a few.
    with suppress(server.client.exceptions.BucketAlreadyOwnedByYou):
        server.bucket("contract")
    store = S3Store("contract", f"evidence/{uuid.uuid4().hex}", "acme")

    def opened() -> S3BlobStore:
        return S3BlobStore(access_of(server.url), store, spool=tmp_path / "spool", settle_s=SETTLE_S)

    def overwrite(digest: Digest, data: bytes) -> None:
        key = f"{store.folder}sha256/{digest.hex[:2]}/{digest.hex}"
        server.client.head_object(Bucket=store.bucket, Key=key)
        server.put(store.bucket, key, data)

    return Backend(opened(), opened(), overwrite)


@pytest.fixture(params=[on_disk, in_a_bucket], ids=["on disk", "in a bucket"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Each backend in turn, empty."""
    made: Backend = request.param(request, tmp_path)
    yield made
    made.blobs.close()
    made.again.close()


@pytest.fixture
def blobs(backend: Backend) -> BlobBackend:
    """Its store."""
    return backend.blobs


def whole(blobs: BlobBackend, digest: Digest, size_bytes: int | None = None) -> bytes:
    """All bytes of a blob, verified."""
    with blobs.open(digest, size_bytes) as reader:
        return reader.read_all()


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, (1 << 20) + 1, 9_000_000])
@pytest.mark.parametrize("form", ["bytes", "a stream"])
def test_what_is_put_is_what_is_opened(backend: Backend, size_bytes: int, form: str) -> None:
    """Under its own digest and size, by whoever opens the store."""
    data = os.urandom(size_bytes)
    put = backend.blobs.put(data if form == "bytes" else io.BytesIO(data))
    assert put == (Digest.of(data), size_bytes)
    assert backend.again.exists(put[0])
    assert whole(backend.again, *put) == data


def test_what_was_never_put_is_missing(blobs: BlobBackend) -> None:
    """By name, and a retry will not help."""
    digest = Digest.of(b"never put")
    assert not blobs.exists(digest)
    with pytest.raises(BlobMissing, match=f"blob-missing: {digest}") as missing:
        blobs.open(digest)
    assert not missing.value.retryable


def test_the_same_bytes_are_stored_once(blobs: BlobBackend) -> None:
    """Also by eight writers at once, who all succeed."""
    with ThreadPoolExecutor(8) as pool:
        put = set(pool.map(lambda _: blobs.put(DATA), range(24)))
    assert put == {(Digest.of(DATA), len(DATA))}
    (stored,) = blobs.blobs()
    assert (stored.digest, stored.size_bytes) == (Digest.of(DATA), len(DATA))
    assert abs(stored.modified_at - time.time()) < 60
    assert whole(blobs, stored.digest) == DATA


def test_all_blobs_are_listed_once(blobs: BlobBackend) -> None:
    """Whatever their digests begin with; what is not a blob is not listed."""
    put = {blobs.put(bytes([number]) * 10)[0] for number in range(40)}
    assert sorted(stored.digest for stored in blobs.blobs()) == sorted(put)
    assert (list(blobs.quarantined()), list(blobs.condemned())) == ([], [])


@pytest.mark.parametrize("form", ["bytes", "a stream"])
def test_unexpected_bytes_are_refused_and_leave_nothing(blobs: BlobBackend, form: str) -> None:
    """A digest that was promised must be kept."""
    with pytest.raises(IntegrityError, match="digest"):
        blobs.put(b"other" if form == "bytes" else io.BytesIO(b"other"), expected=Digest.of(b"bytes"))
    assert list(blobs.blobs()) == []


def test_a_source_that_breaks_leaves_nothing(blobs: BlobBackend) -> None:
    """The source's own error passes through."""

    class Breaks:
        left = 3

        def read(self, limit: int, /) -> bytes:
            self.left -= 1
            if not self.left:
                raise LookupError("broke")
            return bytes(limit)

    with pytest.raises(LookupError):
        blobs.put(Breaks())
    assert list(blobs.blobs()) == []


@pytest.mark.parametrize(
    "other",
    [DATA[:-1], DATA + b"x", b"?" + DATA[1:], b""],
    ids=["shorter", "longer", "a changed byte", "empty"],
)
def test_other_bytes_never_come_to_a_good_end(backend: Backend, other: bytes) -> None:
    """With and without a known size, and reading changes nothing."""
    digest, size_bytes = backend.blobs.put(DATA)
    backend.overwrite(digest, other)
    for size in (None, size_bytes):
        with backend.blobs.open(digest, size) as reader, pytest.raises(IntegrityError, match=digest.hex):
            reader.read_to_end()
        assert not reader.verified
    assert backend.blobs.exists(digest)


def test_a_blob_that_was_not_read_to_its_end_is_not_verified(blobs: BlobBackend) -> None:
    """Not even if every byte was read but the end."""
    digest, size_bytes = blobs.put(DATA)

    def read_almost_all() -> None:
        left = size_bytes
        with blobs.open(digest, size_bytes) as reader:
            while left:
                left -= len(reader.read(left))

    with pytest.raises(IntegrityError, match="unverified"):
        read_almost_all()


def test_a_damaged_blob_is_set_aside_and_then_does_not_exist(backend: Backend) -> None:
    """Nobody is served it, whoever asks what happened finds it, and the right bytes take its place."""
    digest, size_bytes = backend.blobs.put(DATA)
    backend.overwrite(digest, b"rot")
    assert backend.again.quarantine(digest)
    assert not backend.blobs.exists(digest)
    with pytest.raises(BlobMissing):
        backend.blobs.open(digest)
    assert list(backend.blobs.blobs()) == []
    assert [(aside.digest, aside.size_bytes) for aside in backend.blobs.quarantined()] == [(digest, 3)]
    assert backend.blobs.put(DATA) == (digest, size_bytes)
    assert whole(backend.again, digest) == DATA
    assert len(list(backend.blobs.quarantined())) == 1


def test_a_whole_blob_is_not_set_aside(blobs: BlobBackend) -> None:
    """Nor one that is not there: the store looks for itself."""
    digest, _ = blobs.put(DATA)
    assert not blobs.quarantine(digest)
    assert not blobs.quarantine(Digest.of(b"never put"))
    assert whole(blobs, digest) == DATA


@pytest.mark.parametrize("data", [DATA, DATA * 20], ids=["small", "large"])
@pytest.mark.parametrize("rot", [b"rot", None], ids=["of another size", "of the same size"])
def test_a_damaged_blob_is_healed_by_the_next_put(backend: Backend, data: bytes, rot: bytes | None) -> None:
    """What is there already is looked at before it counts as there."""
    digest, size_bytes = backend.blobs.put(data)
    backend.overwrite(digest, rot or bytes(len(data)))
    assert backend.blobs.put(data) == (digest, size_bytes)
    assert whole(backend.again, digest, size_bytes) == data
    assert [aside.digest for aside in backend.blobs.quarantined()] == [digest]


def settled(blobs: BlobBackend) -> None:
    """Wait until a mark may be acted on; a store's clock may count whole seconds."""
    if blobs.settle_s:
        time.sleep(blobs.settle_s + 1.1)


def deleted(blobs: BlobBackend, digest: Digest) -> bool:
    """Delete what is condemned, as it is listed."""
    return blobs.delete_condemned(digest, dict(blobs.condemned()).get(digest, 0.0))


def test_a_deletion_takes_two_phases(backend: Backend) -> None:
    """What is not condemned is not deleted; what is stays readable until it is deleted, and can be put again."""
    blobs, (digest, _), (kept, _) = backend.blobs, backend.blobs.put(DATA), backend.blobs.put(b"kept")
    assert not deleted(blobs, digest)
    assert not blobs.condemn(Digest.of(b"never put"))
    assert blobs.condemn(digest)
    assert whole(backend.again, digest) == DATA
    ((condemned, since),) = backend.again.condemned()
    assert condemned == digest
    assert abs(since - time.time()) < 60
    settled(blobs)
    assert deleted(backend.again, digest)
    assert not blobs.exists(digest)
    assert list(blobs.condemned()) == []
    assert not deleted(blobs, digest)
    assert [stored.digest for stored in blobs.blobs()] == [kept]
    assert blobs.put(DATA)[0] == digest
    assert whole(backend.again, digest) == DATA


@pytest.mark.parametrize("by", ["a put", "a put of a stream", "the collector"])
def test_what_was_spared_is_not_deleted(backend: Backend, by: str) -> None:
    """Whoever puts the bytes again, or names them, takes the mark away; condemned again it goes."""
    blobs = backend.blobs
    digest, _ = blobs.put(DATA)
    assert blobs.condemn(digest)
    settled(blobs)
    spare: dict[str, Callable[[], object]] = {
        "a put": lambda: backend.again.put(DATA),
        "a put of a stream": lambda: backend.again.put(io.BytesIO(DATA)),
        "the collector": lambda: backend.again.spare(digest),
    }
    spare[by]()
    assert not deleted(blobs, digest)
    assert whole(blobs, digest) == DATA
    assert blobs.condemn(digest)
    settled(blobs)
    assert deleted(blobs, digest)
    assert not blobs.exists(digest)


def test_what_was_condemned_anew_is_not_deleted_by_an_earlier_listing(backend: Backend) -> None:
    """Two collectors: one listed the mark; a put spared the blob, the other condemned it anew. The first must not
    delete it, for it did not wait for whoever put it."""
    digest, _ = backend.blobs.put(DATA)
    assert backend.blobs.condemn(digest)
    ((_, since),) = backend.blobs.condemned()
    settled(backend.blobs)
    backend.again.put(DATA)
    assert backend.again.condemn(digest)
    settled(backend.blobs)
    assert not backend.blobs.delete_condemned(digest, since)
    assert whole(backend.again, digest) == DATA
    assert deleted(backend.again, digest)


def together(*actions: Callable[[], object]) -> None:
    """Do all at the same time; what one raises is raised."""
    start = threading.Barrier(len(actions), timeout=30)

    def act(action: Callable[[], object]) -> None:
        start.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(act, actions))


def test_a_deletion_that_meets_a_put_leaves_the_blob(backend: Backend) -> None:
    """Of the two at once either the put spares it, or it comes after the deletion and stores it anew."""
    digest, _ = backend.blobs.put(DATA)
    for _ in range(3 if backend.blobs.settle_s else 100):
        assert backend.blobs.condemn(digest)
        settled(backend.blobs)
        together(lambda: backend.again.put(DATA), lambda: deleted(backend.blobs, digest))
        assert whole(backend.blobs, digest) == DATA
        assert list(backend.blobs.condemned()) == []


def test_nothing_is_left_to_remove_after_puts(blobs: BlobBackend) -> None:
    """Writers that were not killed clean up after themselves."""
    blobs.put(DATA)
    blobs.put(DATA)
    assert blobs.remove_abandoned() == 0
