"""What a store holds and for whom: counts and bytes by tenant and kind, what is shared, set aside, staged, unnamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select

from contracts.digest import Digest
from contracts.ports import StoredBlob
from storage.home import Storage
from storage.references import BlobKind, draft_references, receipt_references
from storage.schema import staged_copy


@dataclass(frozen=True, slots=True)
class Amount:
    """So many things of so many bytes together."""

    count: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Amount:
        """The amount of things with these sizes in bytes."""
        listed = list(sizes)
        return cls(len(listed), sum(listed))


@dataclass(frozen=True, slots=True)
class TenantShare:
    """What one tenant's receipts name of one kind, each blob once, as far as it is in the store."""

    tenant: str
    kind: BlobKind
    amount: Amount


@dataclass(frozen=True, slots=True)
class StoreStats:
    """`named` counts every blob once for each receipt that names it: without sharing, the store would hold so much.
    `unnamed` is what no receipt or open attempt names: of live runs, or the collector's."""

    blobs: Amount
    shares: tuple[TenantShare, ...]
    named: Amount
    unnamed: Amount
    damaged: Amount
    condemned: Amount
    staged: Amount
    leases: int
    receipts: Counter[str]

    @property
    def sharing(self) -> float:
        """How often a named byte is named; 1 where nothing is shared."""
        held = self.blobs.size_bytes - self.unnamed.size_bytes
        return self.named.size_bytes / held if held else 1.0

    def to_json(self) -> dict[str, Any]:
        """The object of `store stats`."""
        amounts = {name: asdict(getattr(self, name)) for name in _AMOUNTS}
        shares = [{"tenant": share.tenant, "kind": share.kind.value, **asdict(share.amount)} for share in self.shares]
        return {
            **amounts,
            "sharing": round(self.sharing, 3),
            "leases": self.leases,
            "receipts": dict(self.receipts),
            "shares": shares,
        }


_AMOUNTS = ("blobs", "named", "unnamed", "damaged", "condemned", "staged")


def stats(storage: Storage) -> StoreStats:
    """Count. Beside live runs the numbers are of no single moment. Raises StorageError, IntegrityError."""
    sizes = {blob.digest: blob.size_bytes for blob in storage.blobs.blobs()}
    shares: dict[tuple[str, BlobKind], set[Digest]] = {}
    named: list[int] = []
    receipts: Counter[str] = Counter()
    seen: set[Digest] = set()
    for each in receipt_references(storage.ledger):
        receipts[each.tenant] += 1
        for digest, kind in each.blobs:
            if digest in sizes:
                shares.setdefault((each.tenant, kind), set()).add(digest)
                named.append(sizes[digest])
                seen.add(digest)
    for each in draft_references(storage.ledger):
        seen |= each.all
    return StoreStats(
        blobs=Amount.of(sizes.values()),
        shares=tuple(
            TenantShare(tenant, kind, Amount.of(sizes[digest] for digest in digests))
            for (tenant, kind), digests in sorted(shares.items())
        ),
        named=Amount.of(named),
        unnamed=Amount.of(size for digest, size in sizes.items() if digest not in seen),
        damaged=_amount(storage.blobs.quarantined()),
        condemned=Amount.of(sizes.get(digest, 0) for digest, _ in storage.blobs.condemned()),
        staged=_staged(storage),
        leases=len(storage.staging.active()),
        receipts=receipts,
    )


def _amount(blobs: Iterable[StoredBlob]) -> Amount:
    return Amount.of(blob.size_bytes for blob in blobs)


def _staged(storage: Storage) -> Amount:
    with storage.leases.read() as tx:
        row = tx.execute(select(func.count(), func.coalesce(func.sum(staged_copy.c.size_bytes), 0))).one()
    return Amount(*row)
