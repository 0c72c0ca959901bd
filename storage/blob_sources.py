"""Bytes of the store as sources, for the tenant that acquired them before and for nobody else.

Whether the store holds bytes that another tenant acquired must not be observable: so the ledger is asked first, for
this tenant alone, and the store only where the ledger says yes. What the ledger denies and what the store lacks is
told by the same words.
"""

from __future__ import annotations

import time

from sqlalchemy import select

from contracts.digest import Digest
from contracts.errors import BlobMissing, FetchError, IntegrityError
from contracts.ports import ServedBlobs
from contracts.records import AcquisitionRecord, Failure
from storage.database import Database
from storage.into_descriptor import write_at
from storage.schema import acquisition as acquisitions


class BlobSources:
    """Reads blobs for one tenant at a time."""

    def __init__(self, blobs: ServedBlobs, ledger: Database) -> None:
        self._blobs = blobs
        self._ledger = ledger

    def acquire(self, digest: Digest, *, tenant: str, max_bytes: int, into: int) -> AcquisitionRecord:
        """Copy the blob into the descriptor `into`, from its beginning, verified while it is copied.

        Failures are in the record: `blob-unknown` where this tenant never acquired such bytes or the store has them no
        more, `blob-over-limit`, and IntegrityError for damaged ones, which are set aside. Raises StorageError for what
        the disk refuses.
        """
        started_at, started = time.time(), time.monotonic()
        size_bytes, failure = None, None
        try:
            size_bytes = self._copy(digest, tenant, max_bytes, into)
        except FetchError as error:
            failure = Failure.of(error)
        except IntegrityError as error:
            self._blobs.quarantine(digest)
            failure = Failure.of(error)
        return AcquisitionRecord(
            source="blob",
            requested=str(digest),
            requested_digest=Digest.of(str(digest).encode()),
            started_at=started_at,
            seconds=time.monotonic() - started,
            size_bytes=size_bytes,
            digest=None if size_bytes is None else digest,
            expected_digest=digest,
            failure=failure,
        )

    def _copy(self, digest: Digest, tenant: str, max_bytes: int, into: int) -> int:
        if not self._acquired(digest, tenant):
            raise _unknown(digest)
        try:
            reader = self._blobs.open(digest)
        except BlobMissing:
            raise _unknown(digest) from None
        size_bytes = 0
        with reader:
            for data in reader:
                if size_bytes + len(data) > max_bytes:
                    raise FetchError("blob-over-limit", f"{digest}: expected at most {max_bytes} bytes, got more")
                write_at(into, data, size_bytes)
                size_bytes += len(data)
        return size_bytes

    def _acquired(self, digest: Digest, tenant: str) -> bool:
        """Whether an acquisition of `tenant` had these bytes."""
        columns = acquisitions.c
        query = select(columns.position).where(columns.tenant == tenant, columns.digest == str(digest))
        with self._ledger.read() as tx:
            return tx.execute(query.where(columns.rule.is_(None)).limit(1)).first() is not None


def _unknown(digest: Digest) -> FetchError:
    return FetchError("blob-unknown", f"{digest}: no acquisition of this tenant had these bytes, or they are gone")
