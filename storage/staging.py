"""Leased, read-only, digest-named files for workers to read: `<root>/<tenant>/<hex>.<ext>`.

The order that makes it safe, all under one lock per path and host:

1. acquire: the lease's row first, the file second. Whoever looks for unused files from then on sees the lease.
2. remove: the copy's row is condemned first, and only if no active lease names it; the file is unlinked second.

A database cannot fence the unlink itself, hence the lock; the kernel releases it when its holder is killed. A file
under its name was verified when it got it: it is a hard link to a blob just read whole, or a verified copy where the
store is on another file system.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.errors import BlobMissing, InputError, LeaseError
from contracts.lease import Lease, LeaseState
from contracts.ports import BlobStore, LocalBlobs
from storage import leases as rows
from storage.database import Database
from storage.disk_errors import disk_errors
from storage.file_lock import file_lock
from storage.hold import Held, Hold
from storage.incoming import incoming, make_directory, remove_abandoned
from storage.process_mark import Liveness, liveness, this_process

_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62})")
_STAGED_NAME = re.compile(r"([0-9a-f]{64})\.[a-z0-9]{2,4}")
_DIRECTORY_MODE = 0o750
_LOCKS = 64  # few enough to leave lying about, many enough that two paths seldom share one
_CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class Swept:
    """What was collected: leases expired, files removed."""

    expired: int = 0
    unlinked: int = 0

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.expired + other.expired, self.unlinked + other.unlinked)


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
        blobs: BlobStore,
        database: Database,
        host: str = "local",
        lock: Callable[[Path], AbstractContextManager[None]] = file_lock,
    ) -> None:
        self.root = root
        self._locks = locks
        self._lock = lock
        self._blobs = blobs
        self._database = database
        self.host = host
        with disk_errors("open staging"):
            make_directory(root, _DIRECTORY_MODE)
            make_directory(locks, 0o700)

    def acquire(self, artifact: Artifact, *, tenant: str, holder: str, now: float, ttl_s: float) -> Held:
        """Lease and stage one artifact; its file is whole, read-only and stays at least until the lease expires.

        `holder` is `<run>/<attempt>`. Raises BlobMissing, IntegrityError for a damaged blob, InputError for a
        tenant that is no name; nothing stays held then.
        """
        if not _TENANT.fullmatch(tenant):
            raise InputError("tenant-name", "expected a tenant of a-z, 0-9 and -, at most 63 characters")
        wanted = Lease(
            id=uuid.uuid4().hex,
            tenant=tenant,
            digest=artifact.digest,
            staged_name=artifact.staged_name,
            holder=holder,
            process=this_process(),
            fence=0,
            acquired_at=now,
            ttl_s=ttl_s,
            expires_at=now + ttl_s,
        )
        path = self.path(tenant, artifact.staged_name)
        with self.path_lock(artifact.digest):
            with self._database.write() as tx:
                lease = rows.insert_lease(tx, self.host, artifact, wanted)
            try:
                self._publish(artifact, path)
            except BaseException:
                self._end(lease, LeaseState.RELEASED, now)
                raise
        return Held(lease, path)

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
        if lease is None or lease.state is not LeaseState.ACTIVE:
            return False
        with self.path_lock(lease.digest):
            return self._end(lease, LeaseState.RELEASED, now)

    def release_holder(self, holder: str, now: float) -> int:
        """Release whatever a run (`<run>`) or an attempt (`<run>/<attempt>`) still holds; returns how many."""
        with self._database.read() as tx:
            held = rows.active_leases(tx, self.host, holder)
        return sum(self.release(lease.id, now) for lease in held)

    def active(self) -> list[Lease]:
        """The leases that protect a file now, oldest first."""
        with self._database.read() as tx:
            return rows.active_leases(tx, self.host)

    def sweep(self, now: float) -> Swept:
        """Expire overdue leases and remove the files that no active lease names. Safe beside live runs."""
        with self._database.write() as tx:
            expired = rows.expire_overdue(tx, self.host, now)
        with self._database.read() as tx:
            idle = rows.idle_copies(tx, self.host)
        unlinked = 0
        for tenant, staged_name, digest in idle:
            with self.path_lock(digest):
                unlinked += self._remove_if_idle(tenant, staged_name)
        return Swept(expired, unlinked)

    def reconcile(self, now: float) -> Swept:
        """Expire the leases of dead processes, remove files that no row knows, then sweep. Safe beside live runs."""
        with self._database.read() as tx:
            held = rows.active_leases(tx, self.host)
        marks = {lease.process for lease in held}
        dead = {mark for mark in marks if liveness(mark) is Liveness.DEAD}
        expired = 0
        if dead:
            with self._database.write() as tx:
                ended = (lease.id for lease in held if lease.process in dead)
                expired = sum(rows.end_lease(tx, lease_id, LeaseState.EXPIRED, now) for lease_id in ended)
        return Swept(expired, self._remove_unknown_files()) + self.sweep(now)

    def path(self, tenant: str, staged_name: str) -> Path:
        """Where a file is, if it is staged."""
        return self.root / tenant / staged_name

    def path_lock(self, digest: Digest) -> AbstractContextManager[None]:
        """While it is held, no file of these bytes appears or goes, and its row says whether it is there."""
        return self._lock(self._locks / f"staging-{int(digest.hex[:4], 16) % _LOCKS:02d}")

    def _end(self, lease: Lease, state: LeaseState, now: float) -> bool:
        """End a lease and remove its file if it was the last. The caller holds the path's lock."""
        with self._database.write() as tx:
            ended = rows.end_lease(tx, lease.id, state, now)
            condemned = rows.condemn(tx, self.host, lease.tenant, lease.staged_name)
        if condemned:
            self._unlink_condemned(lease.tenant, lease.staged_name)
        return ended

    def _remove_if_idle(self, tenant: str, staged_name: str) -> bool:
        with self._database.write() as tx:
            condemned = rows.condemn(tx, self.host, tenant, staged_name)
        return condemned and self._unlink_condemned(tenant, staged_name)

    def _unlink_condemned(self, tenant: str, staged_name: str) -> bool:
        removed = _unlink(self.path(tenant, staged_name))
        with self._database.write() as tx:
            rows.forget_copy(tx, self.host, tenant, staged_name)
        return removed

    def _remove_unknown_files(self) -> int:
        removed = 0
        for tenant in (entry for entry in self.root.iterdir() if entry.is_dir()):
            removed += remove_abandoned(tenant)
            for path in tenant.iterdir():
                named = _STAGED_NAME.fullmatch(path.name)
                if named is None:
                    continue
                with self.path_lock(Digest(named[1])):
                    with self._database.read() as tx:
                        known = rows.has_copy(tx, self.host, tenant.name, path.name)
                    removed += not known and _unlink(path)
        return removed

    def _publish(self, artifact: Artifact, path: Path) -> None:
        """Give the verified bytes their staged name; what already has it was verified when it got it."""
        if path.is_file():
            return
        with disk_errors(f"stage {artifact.digest}"):
            make_directory(path.parent, _DIRECTORY_MODE)
            source = self._blobs.local_path(artifact.digest) if isinstance(self._blobs, LocalBlobs) else None
            if source is None or not self._linked(artifact, source, path):
                self._copy(artifact, path)

    def _linked(self, artifact: Artifact, source: Path, path: Path) -> bool:
        with self._blobs.open(artifact.digest, artifact.size_bytes) as reader:
            reader.read_to_end()
        try:
            os.link(source, path)
        except FileNotFoundError as error:
            raise BlobMissing("blob-missing", f"{artifact.digest} left the store while it was staged") from error
        except OSError as error:
            if error.errno in _CANNOT_LINK:
                return False
            raise
        return True

    def _copy(self, artifact: Artifact, path: Path) -> None:
        with incoming(path.parent) as file:
            with self._blobs.open(artifact.digest, artifact.size_bytes) as reader:
                for data in reader:
                    file.write(data)
            file.publish(path)


def _unlink(path: Path) -> bool:
    with disk_errors("remove a staged file"), suppress(FileNotFoundError):
        path.unlink()
        return True
    return False
