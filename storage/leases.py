"""Rows of leases and staged copies. The SQL of staging and none of its files: storage.staging keeps the order.

A lease is of its file's host, and only that host renews, expires and judges it, by its own clock: so hosts that share
a database need no clock in common, and the database's is not asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, exists, insert, or_, select, update

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.lease import Lease, LeaseState, ProcessMark
from storage.database import begins_with, upsert
from storage.process_mark import boot_clock_s, boot_id
from storage.schema import lease as leases
from storage.schema import staged_copy as copies

_ACTIVE = leases.c.state == LeaseState.ACTIVE.value
_LIVE_LEASE_OF_COPY = exists().where(
    leases.c.host == copies.c.host,
    leases.c.tenant == copies.c.tenant,
    leases.c.staged_name == copies.c.staged_name,
    _ACTIVE,
)


# What every acquire and release says is built once: SQLAlchemy takes longer to build it than to send it.
_OF_COPY = (
    copies.c.host == bindparam("on_host"),
    copies.c.tenant == bindparam("of_tenant"),
    copies.c.staged_name == bindparam("name"),
)
_INSERT_LEASE = insert(leases).returning(leases.c.fence)
_END_LEASE = (
    update(leases)
    .where(leases.c.id == bindparam("of"), _ACTIVE)
    .values(state=bindparam("ending"), ended_at=bindparam("at"))
)
_CONDEMN_COPY = update(copies).where(*_OF_COPY, ~_LIVE_LEASE_OF_COPY).values(state="condemned")
_FORGET_COPY = delete(copies).where(*_OF_COPY, copies.c.state == "condemned")


_STAGE_COPY: dict[str, Any] = {}  # by dialect


def _stage_copy(tx: Connection) -> Any:
    if tx.dialect.name not in _STAGE_COPY:
        key = copies.primary_key.columns.keys()
        row = upsert(tx, copies).on_conflict_do_update(index_elements=key, set_={"state": "staged"})
        _STAGE_COPY[tx.dialect.name] = row
    return _STAGE_COPY[tx.dialect.name]


def _named(host: str, tenant: str, staged_name: str) -> dict[str, str]:
    return {"on_host": host, "of_tenant": tenant, "name": staged_name}


def insert_lease(tx: Connection, host: str, artifact: Artifact, lease: Lease) -> Lease:
    """Write the lease and its copy's row; returns the lease with its fence."""
    copy = {
        "digest": str(artifact.digest),
        "size_bytes": artifact.size_bytes,
        "state": "staged",
        "staged_at": lease.acquired_at,
    }
    key = {"host": host, "tenant": lease.tenant, "staged_name": lease.staged_name}
    tx.execute(_stage_copy(tx), key | copy)
    values = {
        **key,
        "id": lease.id,
        "digest": str(lease.digest),
        "holder": lease.holder,
        "boot_id": lease.process.boot_id,
        "pid_namespace": lease.process.pid_namespace,
        "pid": lease.process.pid,
        "pid_start": lease.process.pid_start,
        "clock_offset_s": lease.acquired_at - boot_clock_s(),
        "acquired_at": lease.acquired_at,
        "ttl_s": lease.ttl_s,
        "expires_at": lease.expires_at,
        "state": LeaseState.ACTIVE.value,
    }
    fence = tx.execute(_INSERT_LEASE, values).scalar_one()
    return replace(lease, fence=fence)


def find_lease(tx: Connection, lease_id: str) -> Lease | None:
    """A lease in any state."""
    row = tx.execute(select(leases).where(leases.c.id == lease_id)).one_or_none()
    return None if row is None else _lease(row)


def active_leases(tx: Connection, host: str, holder: str | None = None) -> list[Lease]:
    """The active leases of this host; of a holder and all below it (`<run>` has `<run>/<attempt>`) if one is given."""
    query = select(leases).where(_ACTIVE, leases.c.host == host)
    if holder is not None:
        query = query.where(or_(leases.c.holder == holder, begins_with(leases.c.holder, f"{holder}/")))
    return [_lease(row) for row in tx.execute(query.order_by(leases.c.fence))]


def renew_lease(tx: Connection, lease: Lease) -> bool:
    """Write a lease's new expiry; False if it is no longer active."""
    held = and_(leases.c.id == lease.id, leases.c.fence == lease.fence, _ACTIVE)
    return tx.execute(update(leases).where(held).values(expires_at=lease.expires_at)).rowcount == 1


def end_lease(tx: Connection, lease_id: str, state: LeaseState, now: float) -> bool:
    """End a lease; False if it had already ended."""
    return tx.execute(_END_LEASE, {"of": lease_id, "ending": state.value, "at": now}).rowcount == 1


def expire_overdue(tx: Connection, host: str, now: float, boot_s: float | None = None) -> int:
    """Expire every active lease of this host whose time has come; returns how many.

    `boot_s` is the boot clock now, read if None. Where the clock was set forward by more than a lease's time to live
    since its times were written, the time has come for all such leases at once and has passed for none: they get as
    much longer, once. (A clock that was set back only keeps leases longer.)
    """
    offset = now - (boot_clock_s() if boot_s is None else boot_s)
    overdue = (leases.c.host == host, leases.c.expires_at <= now)
    jump = offset - leases.c.clock_offset_s
    jumped = _free(*overdue, leases.c.boot_id == boot_id(), jump > leases.c.ttl_s)
    tx.execute(update(leases).where(jumped).values(expires_at=leases.c.expires_at + jump, clock_offset_s=offset))
    ending = update(leases).where(_free(*overdue)).values(state=LeaseState.EXPIRED.value, ended_at=now)
    return tx.execute(ending).rowcount


def give_up_host(tx: Connection, host: str, now: float) -> int:
    """Expire all leases of a host that is gone for good and forget its copies, whose files went with it; returns how
    many leases. Should it come back, its holders find their leases lost and its reap the files unknown."""
    ending = update(leases).where(_ACTIVE, leases.c.host == host)
    ended = tx.execute(ending.values(state=LeaseState.EXPIRED.value, ended_at=now)).rowcount
    tx.execute(delete(copies).where(copies.c.host == host))
    return ended


def _free(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Active leases that nobody else works on: who renews or records under one has not lost it, and nobody waits."""
    chosen = select(leases.c.fence).where(_ACTIVE, *conditions).with_for_update(skip_locked=True)
    return leases.c.fence.in_(chosen)


def condemn(tx: Connection, host: str, tenant: str, staged_name: str) -> bool:
    """Mark a copy for removal unless an active lease names it; False if one does, or there is no such copy."""
    return tx.execute(_CONDEMN_COPY, _named(host, tenant, staged_name)).rowcount == 1


def forget_copy(tx: Connection, host: str, tenant: str, staged_name: str) -> None:
    """Delete the row of a condemned copy whose file is gone."""
    tx.execute(_FORGET_COPY, _named(host, tenant, staged_name))


def idle_copies(tx: Connection, host: str) -> list[tuple[str, str, Digest]]:
    """Tenant, staged name and digest of the copies that no active lease names."""
    query = select(copies.c.tenant, copies.c.staged_name, copies.c.digest)
    rows = tx.execute(query.where(copies.c.host == host, ~_LIVE_LEASE_OF_COPY))
    return [(row.tenant, row.staged_name, Digest.parse(row.digest)) for row in rows]


def has_copy(tx: Connection, host: str, tenant: str, staged_name: str) -> bool:
    """Whether a row says that the file may exist."""
    return tx.execute(select(copies.c.state).where(*_copy(host, tenant, staged_name))).first() is not None


def _copy(host: str, tenant: str, staged_name: str) -> tuple[Any, ...]:
    return copies.c.host == host, copies.c.tenant == tenant, copies.c.staged_name == staged_name


def _lease(row: Row[Any]) -> Lease:
    return Lease(
        id=row.id,
        tenant=row.tenant,
        digest=Digest.parse(row.digest),
        staged_name=row.staged_name,
        holder=row.holder,
        process=ProcessMark(row.host, row.boot_id, row.pid_namespace, row.pid, row.pid_start),
        fence=row.fence,
        acquired_at=row.acquired_at,
        ttl_s=row.ttl_s,
        expires_at=row.expires_at,
        state=LeaseState(row.state),
    )
