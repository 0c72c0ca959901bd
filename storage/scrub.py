"""Read blobs to their end and hash them: what is damaged is set aside, and said with the receipts that name it.

Safe beside live runs: a blob that is damaged is missing from then on to whoever opens it, never served, and whoever
acquires the same bytes again puts it back whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from contracts.digest import Digest
from contracts.errors import BlobMissing, IntegrityError, StorageError
from contracts.ports import BlobBackend, StoredBlob
from storage.home import Storage
from storage.references import receipts_that_name

_READERS = 4  # more than cores, for a store across the network; few enough to leave live runs their share
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class DamagedBlob:
    """A blob whose bytes are not its digest's. `set_aside` is False where somebody else was faster."""

    digest: Digest
    reason: str
    set_aside: bool
    receipts: tuple[Digest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a finding of the command line."""
        return {
            "rule": "blob-damaged",
            "reason": self.reason,
            "digest": str(self.digest),
            "set_aside": self.set_aside,
            "receipts": [str(receipt) for receipt in self.receipts],
        }


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What was read, out of how many there are, and what was found."""

    stored: int
    checked: int
    checked_bytes: int
    damaged: tuple[DamagedBlob, ...]


def choose(
    blobs: Sequence[StoredBlob], *, sample: float = 1.0, max_bytes: int | None = None, chance: random.Random
) -> list[StoredBlob]:
    """The blobs to read, in random order: that share of them, and no more than fit into `max_bytes`, so that one
    scrub after the other comes to all."""
    count = len(blobs) if sample >= 1 else min(len(blobs), max(1, round(len(blobs) * sample)))
    chosen = chance.sample(blobs, count)
    if max_bytes is None:
        return chosen
    within, total = [], 0
    for blob in chosen:
        if total + blob.size_bytes <= max_bytes:
            total += blob.size_bytes
            within.append(blob)
    return within


def scrub(
    storage: Storage, chosen: Sequence[StoredBlob], stored: int, tell: Callable[[StoredBlob], None] | None = None
) -> Scrubbed:
    """Read the chosen blobs of the `stored` ones; `tell` hears of each as it was read. Raises StorageError."""
    checked = checked_bytes = 0
    damaged: list[DamagedBlob] = []
    with ThreadPoolExecutor(_READERS, thread_name_prefix="scrub") as pool:
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            for blob, found in zip(some, pool.map(lambda each: _check(storage.blobs, each), some), strict=True):
                checked, checked_bytes = checked + 1, checked_bytes + blob.size_bytes
                if found is not None:
                    damaged.append(found)
                if tell is not None:
                    tell(blob)
    return Scrubbed(stored, checked, checked_bytes, tuple(_with_receipts(storage, damaged)))


def _check(blobs: BlobBackend, blob: StoredBlob) -> DamagedBlob | None:
    try:
        with blobs.open(blob.digest) as reader:
            reader.read_to_end()
    except BlobMissing:
        return None  # deleted, or set aside by somebody else, since it was listed
    except IntegrityError as error:
        return DamagedBlob(blob.digest, error.reason, blobs.quarantine(blob.digest))
    except StorageError as error:
        if error.rule != "disk-io":
            raise
        return DamagedBlob(blob.digest, error.reason, blobs.quarantine(blob.digest))
    return None


def _with_receipts(storage: Storage, damaged: Sequence[DamagedBlob]) -> Iterator[DamagedBlob]:
    named = receipts_that_name(storage.ledger, (blob.digest for blob in damaged))
    for blob in damaged:
        yield DamagedBlob(blob.digest, blob.reason, blob.set_aside, named[blob.digest])
