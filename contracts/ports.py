"""What crosses between sibling packages, as protocols: who uses them does not know who implements them.

A store of blobs is one object with several faces, and whoever takes it names only the face that it needs: readers
and writers `BlobStore`, scrub `BlobListing` and `BlobQuarantine`, gc `BlobListing` and `BlobDeletion`. So what only
reads cannot delete by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from contracts.digest import Digest, VerifyingReader


class Readable(Protocol):
    """Bytes from anywhere: a file, a pipe, a verifying reader."""

    def read(self, limit: int, /) -> bytes:
        """Up to `limit` bytes; b"" is the end."""
        ...


class BlobStore(Protocol):
    """A store of bytes by digest. Every method raises StorageError for what the machine or the store could not do."""

    def put(self, data: bytes | Readable, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """Commit all of `data` and return its digest and size in bytes; it is durable when this returns.

        Bytes that are already there are not stored again; damaged ones are set aside and replaced. A blob that was
        condemned is spared. Raises IntegrityError, and commits nothing, if the bytes are not the expected ones.
        """
        ...

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """Read a blob. Raises BlobMissing now, IntegrityError at the end of bytes that differ."""
        ...

    def exists(self, digest: Digest) -> bool:
        """Whether a blob was committed under `digest`. Only reading tells whether it is still whole."""
        ...


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A committed blob as its store lists it: `modified_at` is when it was committed, by the store's clock (epoch)."""

    digest: Digest
    size_bytes: int
    modified_at: float


class BlobListing(Protocol):
    """What a store holds."""

    def blobs(self) -> Iterator[StoredBlob]:
        """Every committed blob, in no particular order. One that comes or goes meanwhile may be there or not."""
        ...


class BlobQuarantine(Protocol):
    """Where damaged blobs go: kept for whoever asks what happened, never served."""

    def quarantine(self, digest: Digest) -> bool:
        """Read the blob once more and set it aside if its bytes are not its digest's.

        From then on it does not exist and is missing to whoever opens it, until somebody puts the right bytes. True
        if it was set aside; False if it is whole or not there (somebody else was faster, or it was replaced). Logged.
        """
        ...

    def quarantined(self) -> Iterator[StoredBlob]:
        """What was set aside, by the digest that it should have had; one digest may be there more than once."""
        ...


class ServedBlobs(BlobStore, BlobQuarantine, Protocol):
    """For whoever hands blobs on, and finds the damaged ones by that."""


class BlobDeletion(Protocol):
    """Deletion in two phases, for the collector alone.

    1. `condemn` what nothing refers to. It stays whole and readable, and every `put` of the same bytes spares it.
    2. When every run that was live at that time has ended, look for references again; `delete_condemned` what still
       has none, `spare` what has. Only what is still condemned is deleted.

    A put before phase 1 has its reference in the ledger by phase 2, since its run has ended; a put after phase 1 saw
    the mark and spared the blob, or came after the deletion and stored it anew. So none relies on what is deleted.
    """

    def condemn(self, digest: Digest) -> bool:
        """Phase 1. False if there is no such blob; one that is condemned keeps its time."""
        ...

    def condemned(self) -> Iterator[tuple[Digest, float]]:
        """What is condemned, and since when by the store's clock (epoch s)."""
        ...

    def spare(self, digest: Digest) -> None:
        """Lift the mark. Raises StorageError (retryable) where the blob is just being deleted."""
        ...

    def delete_condemned(self, digest: Digest, since: float) -> bool:
        """Phase 2. False, and nothing is deleted, if the blob is not condemned since that time (epoch s, as
        `condemned` gave it): it was spared then, and perhaps condemned anew by another collector, for which other runs
        are to be waited for. Or if it is not condemned for as long as the store's own `settle_s`: the time after which
        every writer is sure to see the mark.

        Killed half way it leaves the mark, and calling it again ends it. Raises StorageError (`blob-retained`) where
        the store keeps the blob by a rule of its own (object lock).
        """
        ...

    @property
    def settle_s(self) -> float:
        """Seconds that a mark must have stood before its blob can be deleted."""
        ...


class BlobBackend(ServedBlobs, BlobListing, BlobDeletion, Protocol):
    """All faces, as each backend has them (tests/storage/test_blob_contract.py)."""

    def check(self) -> Mapping[str, bool]:
        """What the store was seen to enforce, by name; measured once per process, empty where nothing is in doubt.

        Raises StorageError where it cannot be used now, StorageRefused where it is not safe: before a run, not in it.
        """
        ...

    def remove_abandoned(self) -> int:
        """Remove what killed writers left half-written, where the backend leaves such; returns how many."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...


@runtime_checkable
class LocalBlobs(Protocol):
    """A store whose blobs are files of this host, so that staging can link instead of copying."""

    def local_path(self, digest: Digest) -> Path | None:
        """The read-only file that holds the blob; None where there is none."""
        ...
