"""Collect blobs that nothing refers to: orphans, and media whose retention is over.

Two phases, never one (contracts.ports.BlobDeletion): what nothing refers to is condemned, and still whole and
readable; a later collection deletes it if by then every run that was live when it was condemned has ended, the grace
is over, and still nothing refers to it. So a run that stores the same bytes meanwhile saves them, and one that stored
them before has told of it in the ledger.

What a run can rely on without storing it, it finds in the ledger: an earlier inspection, that names a derivative. Those
rows go before their blobs are condemned; where one is there again, somebody has used the blob since.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import delete, select, tuple_

from contracts.digest import Digest
from contracts.errors import StorageRefused
from contracts.retention import Retention
from storage.database import Database
from storage.home import Storage
from storage.references import draft_references, receipt_references
from storage.retention import holds_in_force, retire, retired_receipts
from storage.runs import RunState
from storage.schema import inspection as inspections
from storage.schema import lease as leases
from storage.stats import Amount

GRACE_S = 3_600.0
CLOCKS_DIFFER_S = 60.0  # those of hosts and stores that share a ledger; and a disk's times are some ms old
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Collected:
    """What was done, or in a dry run would be. Amounts are of blobs.

    `retired` counts receipts by tenant whose media were given up; `waiting` is condemned and not yet to be deleted;
    `kept_by_store` the store keeps by a rule of its own (object lock); `live_runs` are waited for.
    """

    retired: Counter[str]
    condemned: Amount
    spared: Amount
    deleted: Amount
    waiting: Amount
    kept_by_store: Amount
    live_runs: int
    tenants: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of `store gc`."""
        return asdict(self) | {"retired": dict(self.retired)}


@dataclass(slots=True)
class _References:
    """What must stay, and which receipts' media need not."""

    kept: set[Digest]
    retiring: list[tuple[Digest, str]] = field(default_factory=list)
    tenants: set[str] = field(default_factory=set)


def collect(
    storage: Storage,
    retention: Retention,
    now: float,
    *,
    grace_s: float = GRACE_S,
    clocks_differ_s: float = CLOCKS_DIFFER_S,
    delete_blobs: bool = False,
) -> Collected:
    """One collection; without `delete_blobs` nothing is written, only told. Safe beside live runs and other collectors.

    Raises IntegrityError for a receipt that cannot be read (nobody knows what it refers to, so nothing is removed),
    and StorageError; what was done until then stays done.
    """
    references = _references(storage, retention, now)
    sizes = {blob.digest: blob for blob in storage.blobs.blobs()}
    condemned = dict(storage.blobs.condemned())
    plan = _plan(storage, references.kept, condemned, now, grace_s, clocks_differ_s)
    ended = _end_phase(storage, plan, condemned, delete_blobs)
    doomed = [
        blob
        for digest, blob in sizes.items()
        if digest not in references.kept and digest not in condemned and now - blob.modified_at >= grace_s
    ]
    if delete_blobs:
        retire(storage.ledger, [receipt for receipt, _ in references.retiring], now)
        _forget_inspections(storage.ledger, {blob.digest for blob in doomed})
        for blob in doomed:
            storage.blobs.condemn(blob.digest)
    return Collected(
        retired=Counter(tenant for _, tenant in references.retiring),
        condemned=Amount.of(blob.size_bytes for blob in doomed),
        **{name: Amount.of(sizes[each].size_bytes for each in which if each in sizes) for name, which in ended.items()},
        live_runs=len(_starts_of_live_runs(storage)),
        tenants=tuple(sorted(references.tenants)),
    )


def _references(storage: Storage, retention: Retention, now: float) -> _References:
    holds = holds_in_force(storage.ledger)
    before = retired_receipts(storage.ledger)
    found = _References(kept=set(holds.digests) | _leased(storage))
    for each in draft_references(storage.ledger):
        found.kept |= each.all
    for each in receipt_references(storage.ledger):
        found.tenants.add(each.tenant)
        is_over = retention.is_over(each.tenant, each.bundle_id, each.created_at, now)
        if not is_over or holds.covers(each.tenant, each.bundle_id):
            found.kept |= each.all
            continue
        found.kept |= each.all - each.media
        if each.receipt is not None and each.receipt not in before:
            found.retiring.append((each.receipt, each.tenant))
    return found


def _leased(storage: Storage) -> set[Digest]:
    """What an active lease names, of any host."""
    with storage.leases.read() as tx:
        rows = tx.execute(select(leases.c.digest).distinct().where(leases.c.state == "active")).scalars()
        return {Digest.parse(digest) for digest in rows}


def _plan(
    storage: Storage,
    kept: Collection[Digest],
    condemned: Mapping[Digest, float],
    now: float,
    grace_s: float,
    clocks_differ_s: float,
) -> dict[Digest, str]:
    """What is to become of each blob that earlier collections condemned."""
    used = {digest for _, named in _inspections(storage.ledger) for digest in named} if condemned else set()
    starts = _starts_of_live_runs(storage)
    rest_s = max(grace_s, storage.blobs.settle_s)
    plan = {}
    for digest, since in condemned.items():
        is_waited_for = now - since < rest_s or any(started <= since + clocks_differ_s for started in starts)
        plan[digest] = "spared" if digest in kept or digest in used else "waiting" if is_waited_for else "deleted"
    return plan


def _end_phase(
    storage: Storage, plan: Mapping[Digest, str], condemned: Mapping[Digest, float], delete_blobs: bool
) -> dict[str, list[Digest]]:
    """Phase 2; the blobs by what became of them."""
    ended: dict[str, list[Digest]] = {"spared": [], "deleted": [], "waiting": [], "kept_by_store": []}
    for digest, what in plan.items():
        became = what
        if delete_blobs and what == "spared":
            storage.blobs.spare(digest)
        elif delete_blobs and what == "deleted":
            try:
                became = "deleted" if storage.blobs.delete_condemned(digest, condemned[digest]) else "spared"
            except StorageRefused:
                became = "kept_by_store"
        ended[became].append(digest)
    return ended


def _starts_of_live_runs(storage: Storage) -> list[float]:
    """Also of dead ones that reap has not closed yet: their receipts are still to be written."""
    return [run.started_at for run in storage.runs.list(state=RunState.RUNNING, limit=2**31)]


def _forget_inspections(ledger: Database, doomed: AbstractSet[Digest]) -> None:
    keys = [key for key, named in _inspections(ledger) if not doomed.isdisjoint(named)] if doomed else []
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        with ledger.write() as tx:
            tx.execute(delete(inspections).where(tuple_(*_KEY).in_(keys[start : start + _ROWS_AT_ONCE])))


_KEY = (inspections.c.digest, inspections.c.modality, inspections.c.derivation, inspections.c.limits_digest)


def _inspections(ledger: Database) -> Iterator[tuple[tuple[str, ...], frozenset[Digest]]]:
    """The key of each inspection's row, and the blobs that it names."""
    with ledger.read() as tx:
        for row in tx.execute(select(*_KEY, inspections.c.document).execution_options(yield_per=_ROWS_AT_ONCE)):
            named = [row.digest]
            derivative = json.loads(row.document)["derivative"]
            named += [] if derivative is None else [derivative["digest"]]
            yield tuple(row[:4]), frozenset(map(Digest.parse, named))
