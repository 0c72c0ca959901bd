"""Staging where the store is not on this host's disk: pulled once, kept while there is room, gone when there is not."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest, VerifyingReader
from contracts.errors import LeaseError
from storage.disk_blobs import DiskBlobStore
from storage.hold import Held
from storage.home import Storage
from storage.incoming import FileAccess
from storage.s3_blobs import S3BlobStore, S3Store
from storage.staging import Staging, StagingForm, Swept
from tests.services.seaweed import Seaweed, access_of

NOW, TTL = 1_000_000.0, 30.0
KEPT = StagingForm(cache_bytes=250_000)
DATA = bytes(range(256)) * 390  # 99,840 bytes: two fit into the budget


class FarBlobs:
    """A store without files of this host, which counts what is read and can be slow.

    It stands for a bucket where a real one cannot be made to take the time that a test needs.
    """

    def __init__(self, folder: Path) -> None:
        self._near = DiskBlobStore(folder)
        self.put = self._near.put
        self.exists = self._near.exists
        self.quarantine = self._near.quarantine
        self.quarantined = self._near.quarantined
        self.opened = 0
        self.wait: Callable[[], object] = lambda: None

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """As the near one, a little at a time."""
        self.opened += 1
        return VerifyingReader(_Slow(self._near.open(digest, size_bytes), self.wait), digest, size_bytes)


class _Slow:
    def __init__(self, raw: VerifyingReader, wait: Callable[[], object]) -> None:
        self._raw, self._wait = raw, wait
        self.close = raw.close

    def read(self, _limit: int, /) -> bytes:
        self._wait()
        return self._raw.read(10_000)


@pytest.fixture
def far(tmp_path: Path) -> FarBlobs:
    """An empty far store."""
    return FarBlobs(tmp_path / "far")


def staging_of(storage: Storage, blobs: FarBlobs | S3BlobStore | DiskBlobStore, form: StagingForm = KEPT) -> Staging:
    """The staging root of this host, of another store."""
    root = storage.staging.root
    return Staging(root, locks=root.parent / "locks", blobs=blobs, database=storage.leases, form=form)


def put(blobs: FarBlobs | S3BlobStore | DiskBlobStore, mark: str) -> Artifact:
    """An artifact of 99,840 bytes that are a mark's own."""
    digest, size_bytes = blobs.put(mark.encode() + DATA[len(mark) :])
    return Artifact(digest, size_bytes, "image/png", Modality.IMAGE)


def acquire(staging: Staging, artifact: Artifact, now: float = NOW, tenant: str = "acme", ttl_s: float = TTL) -> Held:
    """Stage and lease."""
    return staging.acquire(artifact, tenant=tenant, holder="run-1/1", now=now, ttl_s=ttl_s)


def use(staging: Staging, artifact: Artifact, now: float) -> None:
    """Stage, lease and let go."""
    staging.release(acquire(staging, artifact, now).lease.id, now)


def staged(staging: Staging) -> set[str]:
    """The digests of the files that are there."""
    return {path.name.partition(".")[0] for path in staging.root.rglob("*.png")}


@pytest.mark.parametrize("flat", [False, True], ids=["by tenant", "flat"])
def test_a_bucket_is_pulled_verified_and_published(
    storage: Storage, seaweed: Seaweed, tmp_path: Path, *, flat: bool
) -> None:
    """Read-only, under the tenant's name or without it, and gone with its lease."""
    with suppress(seaweed.client.exceptions.BucketAlreadyOwnedByYou):
        seaweed.bucket("staging")
    store = S3Store("staging", uuid.uuid4().hex)
    blobs = S3BlobStore(access_of(seaweed.url), store, spool=tmp_path / "spool")
    staging = staging_of(storage, blobs, StagingForm(flat=flat))
    artifact = put(blobs, "bucket")
    held = acquire(staging, artifact)
    assert held.path == staging.root / ("" if flat else "acme") / artifact.staged_name
    assert Digest.of(held.path.read_bytes()) == artifact.digest
    assert held.path.stat().st_mode & 0o777 == 0o440
    staging.release(held.lease.id, NOW)
    assert staged(staging) == set()


def test_many_who_want_the_same_bytes_pull_them_once(storage: Storage, far: FarBlobs) -> None:
    """Those who wait find the file; each has a lease of its own."""
    artifact = put(far, "a")
    far.wait = lambda: time.sleep(0.01)
    staging = staging_of(storage, far, StagingForm())
    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(lambda _: acquire(staging, artifact), range(8)))
    assert far.opened == 1
    assert len({each.lease.id for each in held}) == 8
    assert {each.path.read_bytes() for each in held} == {b"a" + DATA[1:]}
    for each in held:
        staging.release(each.lease.id, NOW)
    assert staged(staging) == set()


def test_a_file_is_kept_for_the_next_while_there_is_room(storage: Storage, far: FarBlobs) -> None:
    """The longest unused goes first: that is when it was let go, not when it came."""
    staging, first, second, third = staging_of(storage, far), *(put(far, mark) for mark in "123")
    use(staging, first, NOW)
    use(staging, second, NOW + 1)
    use(staging, first, NOW + 2)
    assert far.opened == 2
    use(staging, third, NOW + 3)
    assert staged(staging) == {first.digest.hex, third.digest.hex}
    assert staging.sweep(NOW + 4) == Swept()
    use(staging, second, NOW + 5)
    assert staged(staging) == {third.digest.hex, second.digest.hex}


def test_what_is_leased_is_never_evicted(storage: Storage, far: FarBlobs) -> None:
    """The budget is exceeded rather, and kept again when there is something to let go."""
    staging = staging_of(storage, far)
    held = [acquire(staging, put(far, mark), NOW) for mark in "12345"]
    assert len(staged(staging)) == 5
    assert all(each.path.exists() for each in held)
    for number, each in enumerate(held):
        staging.release(each.lease.id, NOW + number)
    assert staged(staging) == {held[3].lease.digest.hex, held[4].lease.digest.hex}


def test_without_a_budget_nothing_stays(storage: Storage, far: FarBlobs) -> None:
    """What an earlier setting kept is swept."""
    use(staging_of(storage, far), put(far, "1"), NOW)
    plain = staging_of(storage, far, StagingForm())
    assert len(staged(plain)) == 1
    assert plain.sweep(NOW + 1) == Swept(unlinked=1)
    assert staged(plain) == set()


def test_a_kept_file_that_was_damaged_is_pulled_anew(storage: Storage, far: FarBlobs) -> None:
    """It may have lain there for days, so it is verified again when it is leased again."""
    staging, artifact = staging_of(storage, far), put(far, "1")
    use(staging, artifact, NOW)
    path = staging.path("acme", artifact.staged_name)
    path.chmod(0o600)
    path.write_bytes(b"rot")
    held = acquire(staging, artifact, NOW + 1)
    assert Digest.of(held.path.read_bytes()) == artifact.digest
    assert far.opened == 2


def test_a_lease_outlives_a_pull_that_takes_longer(storage: Storage, far: FarBlobs) -> None:
    """It is renewed while bytes come, though others sweep; and whoever pulls is called meanwhile."""
    staging, artifact, called = staging_of(storage, far), put(far, "1"), list[float]()
    far.wait = lambda: time.sleep(0.4)
    begun, end = time.time(), threading.Event()

    def sweep() -> int:
        expired = 0
        while not end.wait(0.1):
            expired += staging.sweep(time.time()).expired
        return expired

    with ThreadPoolExecutor(1) as pool:
        sweeping = pool.submit(sweep)
        held = staging.acquire(
            artifact,
            tenant="acme",
            holder="run-1/1",
            now=begun,
            ttl_s=3.0,
            meanwhile=lambda: called.append(time.time()),
        )
        end.set()
        assert sweeping.result() == 0
    assert time.time() > begun + 4
    assert held.lease.expires_at > begun + 4
    assert [lease.id for lease in staging.active()] == [held.lease.id]
    assert len(called) == 10


def test_a_pull_whose_lease_was_lost_stops(storage: Storage, far: FarBlobs) -> None:
    """And leaves neither a file nor a row."""
    staging, artifact = staging_of(storage, far), put(far, "1")

    def lose() -> None:
        for lease in staging.active():
            with storage.leases.write() as tx:
                tx.exec_driver_sql(f"UPDATE lease SET state = 'expired' WHERE id = '{lease.id}'")
        time.sleep(0.2)

    far.wait = lose
    with pytest.raises(LeaseError, match="lease-lost"):
        acquire(staging, artifact, time.time(), ttl_s=3.0)
    assert staged(staging) == set()
    assert staging.active() == []
    assert staging.sweep(time.time()) == Swept()


def test_tenants_share_a_flat_file_and_the_last_removes_it(storage: Storage, far: FarBlobs) -> None:
    """Each has its own lease and row; the file stays while any tenant's lease names it."""
    staging, artifact = staging_of(storage, far, StagingForm(flat=True)), put(far, "1")
    ours, theirs = acquire(staging, artifact), acquire(staging, artifact, tenant="umbrella")
    assert ours.path == theirs.path == staging.root / artifact.staged_name
    assert far.opened == 1
    staging.release(ours.lease.id, NOW)
    assert Digest.of(theirs.path.read_bytes()) == artifact.digest
    staging.release(theirs.lease.id, NOW)
    assert staged(staging) == set()
    assert staging.reconcile(NOW) == Swept()


def test_what_another_layout_left_is_removed(storage: Storage, far: FarBlobs) -> None:
    """Files that no row knows, in the root and in the tenants' folders."""
    staging = staging_of(storage, far, StagingForm(flat=True))
    name = put(far, "1").staged_name
    (staging.root / "acme").mkdir(parents=True)
    for path in (staging.root / name, staging.root / "acme" / name):
        path.write_bytes(b"left")
    assert staging.reconcile(NOW) == Swept(unlinked=2)
    assert staged(staging) == set()


def test_a_blob_that_others_may_not_read_is_copied_for_them(storage: Storage, tmp_path: Path) -> None:
    """The mode of the blob's own file is not changed for a staged one."""
    near = DiskBlobStore(tmp_path / "near")
    held = acquire(staging_of(storage, near, StagingForm(FileAccess(0o444))), put(near, "1"))
    assert held.path.stat().st_mode & 0o777 == 0o444
    assert held.path.stat().st_nlink == 1
