"""Leased, read-only, digest-named files for workers to read: `<root>/<tenant>/<hex>.<ext>`, or without the tenant.

The order that makes it safe, all under one lock per path and host:

1. acquire: the lease's row first, the file second. Whoever looks for unused files from then on sees the lease.
2. remove: the copy's row is condemned first, and only if no active lease names it; the file is unlinked second.

A database cannot fence the unlink itself, hence the lock; the kernel releases it when its holder is killed. While it
is held for a pull from a far store, others who want the same bytes wait for them, so they come once.

A file goes with its last lease, or with a budget of bytes later: then the longest unused go first, and one that is
leased again is verified again, for it may have lain there for days.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.errors import InputError, LeaseError
from contracts.lease import Lease, LeaseState
from contracts.ports import ServedBlobs
from storage import leases as rows
from storage import staged_copies as copies
from storage.database import Database
from storage.disk_errors import disk_errors
from storage.file_lock import file_lock
from storage.hold import Held, Hold
from storage.incoming import OURS, FileAccess, make_directory, remove_abandoned
from storage.process_mark import Liveness, liveness, this_process
from storage.publishing import Publisher

_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62})")
_STAGED_NAME = re.compile(r"([0-9a-f]{64})\.[a-z0-9]{2,4}")
_LOCKS = 64  # few enough to leave lying about, many enough that two paths seldom share one


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Swept:
    """What was collected: leases expired, files removed."""

    expired: int = 0
    unlinked: int = 0

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.expired + other.expired, self.unlinked + other.unlinked)


@dataclass(frozen=True, slots=True)
class StagingForm:
    """How files are staged.

    `flat` leaves the tenant out of paths, so that all tenants of the host share a file and every worker can read what
    any of them stages: for hosts of one tenant, or of tenants that trust each other. `cache_bytes` is the budget for
    all staged files; 0 keeps none after its last lease.
    """

    access: FileAccess = OURS
    flat: bool = False
    cache_bytes: int = 0


PLAIN = StagingForm()


class Staging:
    """The staged files of one host. Safe between threads and processes.

    `locks` is a folder of the same host for the lock files, `lock` what holds one of them. Raises StorageError where
    the disk or the ledger fails.
    """

    def __init__(
        self,
        root: Path,
        *,
        locks: Path,
        blobs: ServedBlobs,
        database: Database,
        form: StagingForm = PLAIN,
        lock: Callable[[Path], AbstractContextManager[None]] = file_lock,
    ) -> None:
        self.root = root
        self._locks = locks
        self._lock = lock
        self._form = form
        self._publisher = Publisher(blobs, form.access)
        self._database = database
        self.host = database.host

    def prepare(self) -> None:
        """Make the root, for workers to be started on."""
        with disk_errors("open staging"):
            self._publisher.make_folder(self.root)

    def acquire(
        self,
        artifact: Artifact,
        *,
        tenant: str,
        holder: str,
        now: float,
        ttl_s: float,
        meanwhile: Callable[[], object] = _nothing,
    ) -> Held:
        """Lease and stage one artifact; its file is whole, read-only and stays at least until the lease expires.

        `holder` is `<run>/<attempt>`, `now` when this is called. While bytes are pulled the lease is renewed and
        `meanwhile` is called again and again. Raises BlobMissing, IntegrityError for a damaged blob, InputError for a
        tenant that is no name, LeaseError for a lease that was lost meanwhile; nothing stays held then.
        """
        if not _TENANT.fullmatch(tenant):
            raise InputError("tenant-name", "expected a tenant of a-z, 0-9 and -, at most 63 characters")
        begun = time.monotonic()
        if self._form.cache_bytes and not self.path(tenant, artifact.staged_name).is_file():
            self._evict(artifact.size_bytes)
        with self.path_lock(artifact.digest):
            at = now + _whole_seconds_since(begun)  # somebody else may have pulled the same bytes until now
            wanted = self._wanted(artifact, tenant, holder, at, ttl_s)
            with self._database.write() as tx:
                lease = rows.insert_lease(tx, self.host, artifact, wanted)
            try:
                lease = self._stage(artifact, lease, lambda: now + _whole_seconds_since(begun), meanwhile)
            except BaseException:
                self._end(lease, LeaseState.RELEASED, now, keep=False)
                raise
        return Held(lease, self.path(tenant, artifact.staged_name))

    def acquire_all(self, artifacts: Sequence[Artifact], *, tenant: str, holder: str, now: float, ttl_s: float) -> Hold:
        """`acquire` for several, in order; one lease per file. All or nothing."""
        hold = Hold(self)
        try:
            for artifact in artifacts:
                if not hold.reuse(artifact):
                    hold.add(self.acquire(artifact, tenant=tenant, holder=holder, now=now, ttl_s=ttl_s))
        except BaseException:
            hold.release(now)
            raise
        return hold

    @contextmanager
    def hold(
        self, artifacts: Sequence[Artifact], *, tenant: str, holder: str, clock: Callable[[], float], ttl_s: float
    ) -> Iterator[Hold]:
        """`acquire_all`, released at the end of the block whatever happens in it."""
        hold = self.acquire_all(artifacts, tenant=tenant, holder=holder, now=clock(), ttl_s=ttl_s)
        try:
            yield hold
        finally:
            hold.release(clock())

    def renew(self, lease: Lease, now: float) -> Lease:
        """The lease with a new time to live. Raises LeaseError if it was lost."""
        return self.renew_all((lease,), now)[0]

    def renew_all(self, leases: Sequence[Lease], now: float) -> tuple[Lease, ...]:
        """Renew several in one transaction. Raises LeaseError, and renews none, if one was lost."""
        renewed = tuple(lease.renewed(now) for lease in leases)
        with self._database.write() as tx:
            for lease in renewed:
                if not rows.renew_lease(tx, lease):
                    raise LeaseError("lease-lost", f"lease {lease.id} (fence {lease.fence}) is no longer active")
        return renewed

    def release(self, lease_id: str, now: float) -> bool:
        """Let go; the file is removed if no other active lease names it. False if the lease had already ended."""
        with self._database.read() as tx:
            lease = rows.find_lease(tx, lease_id)
        return lease is not None and lease.state is LeaseState.ACTIVE and self.release_lease(lease, now)

    def release_lease(self, lease: Lease, now: float) -> bool:
        """`release`, for who has the lease."""
        with self.path_lock(lease.digest):
            ended = self._end(lease, LeaseState.RELEASED, now, keep=self._form.cache_bytes > 0)
        if self._form.cache_bytes:
            self._evict()
        return ended

    def release_holder(self, holder: str, now: float) -> int:
        """Release whatever a run (`<run>`) or an attempt (`<run>/<attempt>`) still holds; returns how many."""
        with self._database.read() as tx:
            held = rows.active_leases(tx, self.host, holder)
        return sum(self.release(lease.id, now) for lease in held)

    def active(self) -> list[Lease]:
        """The leases that protect a file now, oldest first."""
        with self._database.read() as tx:
            return rows.active_leases(tx, self.host)

    def sweep(self, now: float, boot_s: float | None = None) -> Swept:
        """Expire overdue leases and remove the files that no active lease names, down to the
        budget. Safe beside live runs.

        `boot_s` is the boot clock now, read if None: by it a clock that was set is told from time that passed.
        """
        with self._database.write() as tx:
            expired = rows.expire_overdue(tx, self.host, now, boot_s)
        return Swept(expired, self._evict())

    def reconcile(self, now: float) -> Swept:
        """Expire the leases of dead processes, remove files that no row knows, then sweep. Safe beside live runs."""
        with self._database.read() as tx:
            held = rows.active_leases(tx, self.host)
        marks = {lease.process for lease in held}
        dead = {mark for mark in marks if liveness(mark, self.host) is Liveness.DEAD}
        expired = 0
        if dead:
            with self._database.write() as tx:
                ended = (lease.id for lease in held if lease.process in dead)
                expired = sum(rows.end_lease(tx, lease_id, LeaseState.EXPIRED, now) for lease_id in ended)
        return Swept(expired, self._remove_unknown_files()) + self.sweep(now)

    def path(self, tenant: str, staged_name: str) -> Path:
        """Where a file is, if it is staged."""
        return self.folder(tenant) / staged_name

    def folder(self, tenant: str) -> Path:
        """Where the files of a tenant are."""
        return self.root if self._form.flat else self.root / tenant

    def path_lock(self, digest: Digest) -> AbstractContextManager[None]:
        """While it is held, no file of these bytes appears or goes, and its row says whether it is there."""
        with disk_errors("open staging"):
            make_directory(self._locks, 0o700)
        return self._lock(self._locks / f"staging-{int(digest.hex[:4], 16) % _LOCKS:02d}")

    def _wanted(self, artifact: Artifact, tenant: str, holder: str, at: float, ttl_s: float) -> Lease:
        return Lease(
            id=uuid.uuid4().hex,
            tenant=tenant,
            digest=artifact.digest,
            staged_name=artifact.staged_name,
            holder=holder,
            process=this_process(self.host),
            fence=0,  # given with the row
            acquired_at=at,
            ttl_s=ttl_s,
            expires_at=at + ttl_s,
        )

    def _stage(
        self, artifact: Artifact, lease: Lease, clock: Callable[[], float], meanwhile: Callable[[], object]
    ) -> Lease:
        """Have the file there; what others hold was verified when they got it. Returns the lease, perhaps renewed."""
        path = self.path(lease.tenant, lease.staged_name)

        def progress() -> None:
            nonlocal lease
            meanwhile()
            if lease.renew_due(clock()):
                lease = self.renew(lease, clock())

        if path.is_file() and (self._is_shared(lease) or self._publisher.is_whole(artifact, path)):
            return lease
        self._publisher.publish(artifact, path, progress)
        return lease

    def _is_shared(self, lease: Lease) -> bool:
        with self._database.read() as tx:
            return copies.is_shared(tx, self.host, lease, tenants=self._form.flat)

    def _end(self, lease: Lease, state: LeaseState, now: float, *, keep: bool) -> bool:
        """End a lease and, if it was the last, remove its file unless it is to be kept. The caller holds the lock."""
        with self._database.write() as tx:
            ended = rows.end_lease(tx, lease.id, state, now)
            if keep:
                copies.let_go(tx, self.host, lease, now)
            condemned = not keep and rows.condemn(tx, self.host, lease.tenant, lease.staged_name)
        if condemned:
            self._unlink_condemned(lease.tenant, lease.staged_name)
        return ended

    def _evict(self, room_bytes: int = 0) -> int:
        """Remove idle files, the longest unused first, until all and `room_bytes` more are within the budget."""
        with self._database.read() as tx:
            total = copies.total_bytes(tx, self.host) + room_bytes
            idle = copies.idle_copies(tx, self.host)
        removed = 0
        for copy in idle:
            if self._form.cache_bytes and total <= self._form.cache_bytes:
                break
            with self.path_lock(copy.digest):
                removed += self._remove_if_idle(copy.tenant, copy.staged_name)
            total -= copy.size_bytes
        return removed

    def _remove_if_idle(self, tenant: str, staged_name: str) -> bool:
        with self._database.write() as tx:
            condemned = rows.condemn(tx, self.host, tenant, staged_name)
        return condemned and self._unlink_condemned(tenant, staged_name)

    def _unlink_condemned(self, tenant: str, staged_name: str) -> bool:
        removed = not self._is_of_others(tenant, staged_name) and _unlink(self.path(tenant, staged_name))
        with self._database.write() as tx:
            rows.forget_copy(tx, self.host, tenant, staged_name)
        return removed

    def _is_of_others(self, tenant: str, staged_name: str) -> bool:
        """Whether other tenants have a file of the same path."""
        if not self._form.flat:
            return False
        with self._database.read() as tx:
            return copies.is_of_others(tx, self.host, staged_name, tenant)

    def _remove_unknown_files(self) -> int:
        """Of either layout, so that what an earlier setting left goes too."""
        if not self.root.is_dir():
            return 0
        removed = self._remove_unknown_of(self.root, None)
        for folder in (entry for entry in self.root.iterdir() if entry.is_dir()):
            removed += self._remove_unknown_of(folder, folder.name)
        return removed

    def _remove_unknown_of(self, folder: Path, tenant: str | None) -> int:
        removed = remove_abandoned(folder)
        for path in folder.iterdir():
            named = _STAGED_NAME.fullmatch(path.name)
            if named is None:
                continue
            with self.path_lock(Digest(named[1])):
                with self._database.read() as tx:
                    known = copies.is_known(tx, self.host, path.name, tenant)
                removed += not known and _unlink(path)
        return removed


def _whole_seconds_since(begun: float) -> int:
    return int(time.monotonic() - begun)


def _unlink(path: Path) -> bool:
    with disk_errors("remove a staged file"), suppress(FileNotFoundError):
        path.unlink()
        return True
    return False
