"""Staged files: there while a live lease names them, and only then."""

from __future__ import annotations

import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from contracts.errors import BlobMissing, InputError, IntegrityError, LeaseError
from storage import schema
from storage.disk_blobs import DiskBlobStore
from storage.hold import Held
from storage.home import Storage
from storage.process_mark import boot_clock_s
from storage.staging import Staging, Swept
from tests.blob_files import blob_file
from tests.storage.conftest import Dying

NOW = 1_000.0
TTL = 30.0


def stored(storage: Storage, data: bytes = b"an image") -> Artifact:
    """Bytes in the store, as an artifact."""
    digest, size_bytes = storage.blobs.put(data)
    return Artifact(digest, size_bytes, "image/png", Modality.IMAGE)


def staged_files(storage: Storage) -> list[Path]:
    """Every file in staging."""
    return sorted(path for path in storage.staging.root.rglob("*") if path.is_file())


def copies(storage: Storage) -> int:
    """How many rows of staged copies there are."""
    with storage.leases.read() as tx:
        return tx.execute(select(func.count()).select_from(schema.staged_copy)).scalar_one()


def acquire(
    storage: Storage, artifact: Artifact, tenant: str = "acme", holder: str = "run-1/1", now: float = NOW
) -> Held:
    """A lease of 30 s."""
    return storage.staging.acquire(artifact, tenant=tenant, holder=holder, now=now, ttl_s=TTL)


def test_acquire_then_release_changes_nothing(storage: Storage) -> None:
    """The file is there in between, digest-named, read-only and the blob's own inode; afterwards no trace is."""
    artifact = stored(storage)
    held = acquire(storage, artifact)
    assert held.path == storage.staging.root / "acme" / f"{artifact.digest.hex}.png"
    assert held.path.read_bytes() == b"an image"
    assert stat.S_IMODE(held.path.stat().st_mode) == 0o440
    blob = blob_file(storage.blobs, artifact.digest)
    assert held.path.samefile(blob)
    assert storage.staging.release(held.lease.id, NOW)
    assert (staged_files(storage), storage.staging.active(), copies(storage)) == ([], [], 0)
    assert storage.blobs.exists(artifact.digest)


def test_a_file_stays_while_one_of_two_leases_names_it(storage: Storage) -> None:
    """Releasing one keeps it, releasing the other removes it."""
    artifact = stored(storage)
    first, second = acquire(storage, artifact), acquire(storage, artifact, holder="run-2/1")
    assert first.lease.fence < second.lease.fence
    storage.staging.release(first.lease.id, NOW)
    assert staged_files(storage) == [second.path]
    assert storage.staging.sweep(NOW) == Swept()
    storage.staging.release(second.lease.id, NOW)
    assert staged_files(storage) == []


def test_a_lease_is_released_once(storage: Storage) -> None:
    """Again, or for a lease that never was, it says so and does nothing."""
    held = acquire(storage, stored(storage))
    assert storage.staging.release(held.lease.id, NOW)
    assert not storage.staging.release(held.lease.id, NOW)
    assert not storage.staging.release("never", NOW)


def test_a_sweep_takes_exactly_what_has_expired(storage: Storage) -> None:
    """One lease is overdue and its file goes; the other is not and its file stays."""
    old, young = acquire(storage, stored(storage, b"old")), acquire(storage, stored(storage, b"young"), now=NOW + 10)
    assert storage.staging.sweep(NOW + TTL - 1) == Swept()
    assert storage.staging.sweep(NOW + TTL) == Swept(expired=1, unlinked=1)
    assert staged_files(storage) == [young.path]
    with pytest.raises(LeaseError, match="lease-lost"):
        storage.staging.renew(old.lease, NOW + TTL)


def test_a_clock_that_jumps_forward_expires_nothing(storage: Storage) -> None:
    """An hour by the wall clock and a moment by the boot clock: the clock was set. Each lease gets as much longer,
    once, and expires when its time has really come."""
    held = acquire(storage, stored(storage))
    assert storage.staging.sweep(NOW + 3_600) == Swept()
    assert [lease.expires_at for lease in storage.staging.active()] == [pytest.approx(NOW + 3_600 + TTL, abs=5)]
    assert held.path.exists()
    assert storage.staging.sweep(NOW + 3_600 + TTL + 5, boot_clock_s() + TTL + 5) == Swept(expired=1, unlinked=1)


def test_an_hour_that_passed_expires_what_was_not_renewed(storage: Storage) -> None:
    """By both clocks, as after a host slept: its holders slept too and find their leases lost."""
    acquire(storage, stored(storage))
    assert storage.staging.sweep(NOW + 3_600, boot_clock_s() + 3_600) == Swept(expired=1, unlinked=1)


def test_a_clock_that_jumps_back_keeps_leases_longer(storage: Storage) -> None:
    """Nothing expires before the time that was written, and renewals never shorten a lease."""
    held = acquire(storage, stored(storage))
    assert storage.staging.sweep(NOW - 3_600, boot_clock_s() + TTL + 1) == Swept()
    assert storage.staging.renew(held.lease, NOW - 3_600).expires_at == NOW + TTL


def test_a_lease_from_before_the_boot_clock_was_kept_expires(storage: Storage) -> None:
    """Of a row that an older version wrote it is not known whether the clock jumped."""
    acquire(storage, stored(storage))
    with storage.leases.write() as tx:
        tx.execute(update(schema.lease).values(clock_offset_s=None))
    assert storage.staging.sweep(NOW + 3_600) == Swept(expired=1, unlinked=1)


def test_a_renewed_lease_outlives_its_first_term(storage: Storage) -> None:
    """A renewal moves the expiry, in the row too."""
    held = acquire(storage, stored(storage))
    renewed = storage.staging.renew(held.lease, NOW + 10)
    assert renewed.expires_at == NOW + 10 + TTL
    assert storage.staging.sweep(NOW + TTL) == Swept()
    assert storage.staging.sweep(NOW + 10 + TTL, boot_clock_s() + 10 + TTL).expired == 1


def test_tenants_have_files_of_their_own(storage: Storage) -> None:
    """The same bytes for two tenants are two names; one tenant's release does not touch the other's."""
    artifact = stored(storage)
    ours, theirs = acquire(storage, artifact, "acme"), acquire(storage, artifact, "umbrella")
    assert ours.path != theirs.path
    storage.staging.release(ours.lease.id, NOW)
    assert staged_files(storage) == [theirs.path]


@pytest.mark.parametrize("tenant", ["", "..", "a/b", "Acme", "-a", "a_b", "a" * 64, "acme\n"])
def test_a_tenant_is_a_plain_name(storage: Storage, tenant: str) -> None:
    """Never a path."""
    with pytest.raises(InputError, match="tenant-name"):
        acquire(storage, stored(storage), tenant)
    assert storage.staging.active() == []


def test_what_is_not_whole_is_never_staged(storage: Storage) -> None:
    """A damaged blob and a missing one are refused, and nothing stays held."""
    artifact = stored(storage)
    blob = blob_file(storage.blobs, artifact.digest)
    blob.chmod(0o600)
    blob.write_bytes(b"an imagE")
    with pytest.raises(IntegrityError, match=artifact.digest.hex):
        acquire(storage, artifact)
    missing = Artifact(Digest.of(b"never"), 5, "image/png", Modality.IMAGE)
    with pytest.raises(BlobMissing):
        acquire(storage, missing)
    assert (staged_files(storage), storage.staging.active(), copies(storage)) == ([], [], 0)


def test_a_store_on_another_file_system_is_copied_from(storage: Storage) -> None:
    """Where no hard link can be made, the file is a verified copy with the same mode."""
    other = Path("/dev/shm")
    storage.staging.prepare()
    if not other.is_dir() or other.stat().st_dev == storage.staging.root.stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        blobs = DiskBlobStore(Path(folder))
        digest, size_bytes = blobs.put(b"far away")
        staging = Staging(
            storage.staging.root, locks=storage.staging.root.parent / "locks", blobs=blobs, database=storage.leases
        )
        artifact = Artifact(digest, size_bytes, "image/png", Modality.IMAGE)
        held = staging.acquire(artifact, tenant="acme", holder="run-1/1", now=NOW, ttl_s=TTL)
        assert held.path.read_bytes() == b"far away"
        assert held.path.stat().st_nlink == 1
        assert stat.S_IMODE(held.path.stat().st_mode) == 0o440
        staging.release(held.lease.id, NOW)


def test_a_hold_names_every_artifact_in_order_and_lets_all_go(storage: Storage) -> None:
    """An artifact that occurs twice has one lease and two places; the block's end releases, also when it raises."""
    first, second = stored(storage, b"1"), stored(storage, b"2")

    def use_and_fail() -> None:
        with storage.staging.hold(
            [first, second, first], tenant="acme", holder="run-1/1", clock=lambda: NOW, ttl_s=TTL
        ) as hold:
            assert [path.read_bytes() for path in hold.paths] == [b"1", b"2", b"1"]
            assert len(hold.leases) == 2
            assert not hold.renew_due(NOW + 9)
            assert hold.renew_due(NOW + 10)
            hold.renew(NOW + 15)
            assert not hold.must_stop(NOW + 34)
            assert hold.must_stop(NOW + 35)
            assert [path.read_bytes() for path in hold.paths] == [b"1", b"2", b"1"]
            raise LookupError

    with pytest.raises(LookupError):
        use_and_fail()
    assert (staged_files(storage), storage.staging.active()) == ([], [])


def test_a_hold_is_all_or_nothing(storage: Storage) -> None:
    """If the second artifact cannot be staged, the first is not held either."""
    missing = Artifact(Digest.of(b"never"), 5, "image/png", Modality.IMAGE)
    with pytest.raises(BlobMissing):
        storage.staging.acquire_all([stored(storage), missing], tenant="acme", holder="run-1/1", now=NOW, ttl_s=TTL)
    assert (staged_files(storage), storage.staging.active()) == ([], [])


def test_a_hold_that_lost_one_lease_says_so_and_renews_none(storage: Storage) -> None:
    """All leases of a request are needed, so one lost is all lost."""
    hold = storage.staging.acquire_all(
        [stored(storage, b"1"), stored(storage, b"2")], tenant="acme", holder="run-1/1", now=NOW, ttl_s=TTL
    )
    storage.staging.release(hold.leases[1].id, NOW)
    with pytest.raises(LeaseError, match="lease-lost"):
        hold.renew(NOW + 10)
    assert [lease.expires_at for lease in storage.staging.active()] == [NOW + TTL]
    hold.release(NOW + 10)


def test_a_run_lets_go_of_all_that_is_its_own(storage: Storage) -> None:
    """`run-1` has `run-1/1` and `run-1/2`, but not `run-10/1`."""
    for number, holder in enumerate(("run-1/1", "run-1/2", "run-10/1")):
        acquire(storage, stored(storage, bytes([number])), holder=holder)
    assert storage.staging.release_holder("run-1", NOW) == 2
    assert [lease.holder for lease in storage.staging.active()] == ["run-10/1"]


HOLD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from contracts.artifact import Artifact, Modality
from settings.load import load
from storage.home import storage_of
storage = storage_of(load())
digest, size = storage.blobs.put(b"held by the dead")
storage.staging.acquire(Artifact(digest, size, "image/png", Modality.IMAGE),
    tenant="acme", holder="run-1/1", now=1000.0, ttl_s=1e9)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_held_is_collected_at_once(storage: Storage, home: Path, in_dying_process: Dying) -> None:
    """Its lease had long to live; reconcile sees that the process is dead, and leaves ours alone."""
    in_dying_process(HOLD_AND_DIE, str(home))
    ours = acquire(storage, stored(storage))
    assert len(staged_files(storage)) == 2
    assert storage.staging.reconcile(NOW) == Swept(expired=1, unlinked=1)
    assert staged_files(storage) == [ours.path]


def test_a_lease_of_another_boot_is_dead(storage: Storage) -> None:
    """After a restart no process that held anything is left."""
    acquire(storage, stored(storage))
    with storage.leases.write() as tx:
        tx.execute(update(schema.lease).values(boot_id="another"))
    assert storage.staging.reconcile(NOW) == Swept(expired=1, unlinked=1)


def test_a_lease_of_another_container_holds_until_it_expires(storage: Storage) -> None:
    """Process numbers of another namespace mean nothing here, so they prove nothing."""
    acquire(storage, stored(storage))
    with storage.leases.write() as tx:
        tx.execute(update(schema.lease).values(pid_namespace="pid:[1]", pid=1))
    assert storage.staging.reconcile(NOW) == Swept()
    assert storage.staging.reconcile(NOW + TTL) == Swept(expired=1, unlinked=1)


def test_files_that_no_row_knows_are_removed(storage: Storage) -> None:
    """A leftover under a staged name goes; a name that is none of ours is left to its owner."""
    held = acquire(storage, stored(storage))
    orphan = held.path.with_name("0" * 64 + ".png")
    orphan.write_bytes(b"left over")
    foreign = held.path.with_name("README")
    foreign.write_bytes(b"not ours")
    assert storage.staging.reconcile(NOW) == Swept(unlinked=1)
    assert staged_files(storage) == sorted([held.path, foreign])


def test_threads_that_share_a_file_never_see_it_missing(storage: Storage) -> None:
    """Acquire, read, release from eight threads on two artifacts: every read succeeds."""
    artifacts = [stored(storage, b"a" * 999), stored(storage, b"b" * 999)]

    def cycle(number: int) -> bool:
        artifact = artifacts[number % 2]
        held = acquire(storage, artifact, holder=f"run-1/{number}")
        whole = Digest.of(held.path.read_bytes()) == artifact.digest
        return storage.staging.release(held.lease.id, NOW) and whole

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(cycle, range(160)))
    assert (staged_files(storage), copies(storage)) == ([], 0)
