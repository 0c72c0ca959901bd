"""What crosses between sibling packages, as protocols: who uses them does not know who implements them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from contracts.digest import Digest, VerifyingReader


class Readable(Protocol):
    """Bytes from anywhere: a file, a pipe, a verifying reader."""

    def read(self, limit: int, /) -> bytes:
        """Up to `limit` bytes; b"" is the end."""
        ...


class BlobStore(Protocol):
    """A store of bytes by digest. Deletion is not part of it: only the collector deletes.

    Every method raises StorageError for what the machine could not do.
    """

    def put(self, stream: Readable, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """Commit all of `stream` and return its digest and size in bytes; it is durable when this returns.

        Bytes that are already there are not stored again. Raises IntegrityError, and commits nothing, if the bytes
        are not the expected ones.
        """
        ...

    def put_bytes(self, data: bytes, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """`put` of bytes in memory."""
        ...

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """Read a blob. Raises BlobMissing now, IntegrityError at the end of bytes that differ."""
        ...

    def exists(self, digest: Digest) -> bool:
        """Whether a blob was committed under `digest`. Only reading tells whether it is still whole."""
        ...

    def digests(self) -> Iterator[Digest]:
        """Every committed digest, in no particular order."""
        ...

    def local_path(self, digest: Digest) -> Path | None:
        """The read-only file of this host that holds the blob, to hard-link from; None where there is none."""
        ...
