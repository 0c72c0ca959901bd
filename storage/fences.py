"""No answer is recorded for evidence that was taken away while it was read.

A lease ends once, in one of two ways: its holder lets it go, which it does only after the answer's last byte, or it
expires, and from then on its file may be gone. So an attempt was answered under its leases exactly if none of them has
expired, and the ledger's transaction holds that still until it is committed.

On PostgreSQL the leases are in the same database: their rows are locked FOR SHARE, and whoever would expire one waits.
On SQLite they are in another file, and the leases' write lock is held around the ledger's commit: nothing expires
meanwhile. (Attaching one file to the other's connection would lock both too, but by polling, which starves writers.)
Leases come before the ledger in every order of locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, select

from contracts.errors import LeaseError
from contracts.lease import LeaseState
from contracts.receipt import LeaseRecord
from storage.database import Database
from storage.schema import lease as leases


@contextmanager
def fenced_write(ledger: Database, held: Database, fences: Sequence[LeaseRecord]) -> Iterator[Connection]:
    """A write transaction of `ledger` during which none of the leases `fences`, kept in `held`, can be lost.

    Raises LeaseError (`lease-lost`), before anything is written, if one was; and StorageError.
    """
    if not fences:
        with ledger.write() as tx:
            yield tx
    elif held is ledger:
        with ledger.write() as tx:
            _check(tx, fences)
            yield tx
    else:
        with held.write() as guard:
            _check(guard, fences)
            with ledger.write() as tx:
                yield tx


def _check(tx: Connection, fences: Sequence[LeaseRecord]) -> None:
    query = select(leases.c.id, leases.c.fence, leases.c.state).where(leases.c.id.in_([each.id for each in fences]))
    rows = tx.execute(query.order_by(leases.c.fence).with_for_update(read=True))
    kept = {(row.id, row.fence) for row in rows if row.state != LeaseState.EXPIRED.value}
    for each in fences:
        if (each.id, each.fence) not in kept:
            raise LeaseError(
                "lease-lost", f"lease {each.id} (fence {each.fence}) ended before its attempt was recorded"
            )
