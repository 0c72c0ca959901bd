"""Rows of staged copies as a cache: what lies idle, how much there is, who shares a file. See storage.leases."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select, update

from contracts.digest import Digest
from contracts.lease import Lease, LeaseState
from storage.schema import lease as leases
from storage.schema import staged_copy as copies

_LEASED = exists().where(
    leases.c.host == copies.c.host,
    leases.c.tenant == copies.c.tenant,
    leases.c.staged_name == copies.c.staged_name,
    leases.c.state == LeaseState.ACTIVE.value,
)


@dataclass(frozen=True, slots=True)
class IdleCopy:
    """A copy that no active lease names."""

    tenant: str
    staged_name: str
    digest: Digest
    size_bytes: int


def total_bytes(tx: Connection, host: str) -> int:
    """The size of all copies of a host."""
    total: int = tx.execute(
        select(func.coalesce(func.sum(copies.c.size_bytes), 0)).where(copies.c.host == host)
    ).scalar_one()
    return int(total)


def idle_copies(tx: Connection, host: str) -> list[IdleCopy]:
    """The idle copies of a host, the longest unused first."""
    query = select(copies).where(copies.c.host == host, ~_LEASED).order_by(copies.c.staged_at, copies.c.staged_name)
    return [
        IdleCopy(row.tenant, row.staged_name, Digest.parse(row.digest), row.size_bytes) for row in tx.execute(query)
    ]


def let_go(tx: Connection, host: str, lease: Lease, now: float) -> None:
    """Keep a lease's copy: from now on it is counted by when it was last used."""
    mine = (copies.c.host == host, copies.c.tenant == lease.tenant, copies.c.staged_name == lease.staged_name)
    tx.execute(update(copies).where(*mine).values(staged_at=now))


def is_shared(tx: Connection, host: str, lease: Lease, *, tenants: bool) -> bool:
    """Whether another active lease names the same file; with `tenants` also one of another tenant."""
    query = select(leases.c.id).where(
        leases.c.host == host,
        leases.c.staged_name == lease.staged_name,
        leases.c.state == LeaseState.ACTIVE.value,
        leases.c.id != lease.id,
    )
    if not tenants:
        query = query.where(leases.c.tenant == lease.tenant)
    return tx.execute(query.limit(1)).first() is not None


def is_known(tx: Connection, host: str, staged_name: str, tenant: str | None) -> bool:
    """Whether a row says that the file may exist: that of `tenant`, or of any."""
    query = select(copies.c.state).where(copies.c.host == host, copies.c.staged_name == staged_name)
    if tenant is not None:
        query = query.where(copies.c.tenant == tenant)
    return tx.execute(query.limit(1)).first() is not None


def is_of_others(tx: Connection, host: str, staged_name: str, tenant: str) -> bool:
    """Whether another tenant has a copy of the same name."""
    others = (copies.c.host == host, copies.c.staged_name == staged_name, copies.c.tenant != tenant)
    return tx.execute(select(copies.c.state).where(*others).limit(1)).first() is not None
