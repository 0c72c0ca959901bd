"""Rows of retention: which receipts' media were given up, when, and what is held whatever retention says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.retention import Holds, hold_subject
from storage.database import Database, upsert
from storage.schema import legal_hold as holds
from storage.schema import retired_media as retired

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class LegalHold:
    """One hold: what it covers, why, and since when (epoch s)."""

    subject: str
    reason: str
    created_at: float


def add_hold(ledger: Database, subject: str, reason: str, now: float) -> None:
    """Hold a subject from now on. Raises InputError for what is no subject, and for one that is held already."""
    row = {"subject": hold_subject(subject), "reason": reason, "created_at": now}
    with ledger.write() as tx:
        if tx.execute(select(holds.c.subject).where(holds.c.subject == subject)).first() is not None:
            raise InputError("hold-exists", f"{subject} is held already")
        tx.execute(insert(holds).values(**row))


def remove_hold(ledger: Database, subject: str) -> None:
    """Lift a hold. Raises InputError (`hold-unknown`) where there is none."""
    with ledger.write() as tx:
        if tx.execute(delete(holds).where(holds.c.subject == subject)).rowcount != 1:
            raise InputError("hold-unknown", f"there is no hold on {subject!r}")


def list_holds(ledger: Database) -> list[LegalHold]:
    """All holds, oldest first."""
    with ledger.read() as tx:
        rows = tx.execute(select(holds).order_by(holds.c.created_at, holds.c.subject)).all()
    return [LegalHold(row.subject, row.reason, row.created_at) for row in rows]


def holds_in_force(ledger: Database) -> Holds:
    """The same, to ask."""
    return Holds(frozenset(hold.subject for hold in list_holds(ledger)))


def retire(ledger: Database, receipts: Sequence[Digest], now: float) -> None:
    """Write that the media of these receipts are given up; one that already is keeps its time."""
    for start in range(0, len(receipts), _ROWS_AT_ONCE):
        rows = [{"receipt_id": str(each), "retired_at": now} for each in receipts[start : start + _ROWS_AT_ONCE]]
        with ledger.write() as tx:
            tx.execute(upsert(tx, retired).on_conflict_do_nothing(), rows)


def retired_at(ledger: Database, receipt: Digest) -> float | None:
    """When the media of a receipt were given up; None if they were not."""
    with ledger.read() as tx:
        at: float | None = tx.execute(select(retired.c.retired_at).where(retired.c.receipt_id == str(receipt))).scalar()
    return at


def retired_receipts(ledger: Database) -> frozenset[Digest]:
    """All receipts whose media were given up."""
    with ledger.read() as tx:
        return frozenset(Digest.parse(name) for name in tx.execute(select(retired.c.receipt_id)).scalars())
