"""The blob store on a local disk: `<root>/sha256/<ab>/<64 hex>`, one read-only file per digest.

A blob is written and hashed without a name, made durable, and linked under its digest: so a name exists only for
bytes that are all there, a crash leaves nothing, and of two writers of the same bytes one finds the name taken. A
blob found damaged on such an occasion is replaced by the whole one just written.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from contracts.digest import CHUNK_BYTES, Digest, Hasher, VerifyingReader
from contracts.errors import BlobMissing, InputError, IntegrityError
from contracts.ports import Readable
from storage.disk_errors import disk_errors
from storage.incoming import IncomingFile, OpenIncoming, incoming, make_directory, open_incoming

_DIRECTORY_MODE = 0o700
_log = logging.getLogger(__name__)


class _BlobFile(io.FileIO):
    """A blob's file; what the disk cannot read is a StorageError."""

    def read(self, limit: int | None = -1, /) -> bytes:
        with disk_errors("read a blob"):
            return super().read(-1 if limit is None else limit) or b""


def _open_regular(path: str, flags: int) -> int:
    """Open a blob's file. A link, pipe or device in its place could lead elsewhere or never end: IntegrityError."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise IntegrityError("not-regular", f"a link stands where {Path(path).name} should be") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IntegrityError("not-regular", f"something that is no file stands where {Path(path).name} should be")
    return descriptor


class DiskBlobStore:
    """Blobs on disk; see contracts.ports.BlobStore. Safe between threads and processes."""

    def __init__(self, root: Path, *, open_file: OpenIncoming = open_incoming) -> None:
        self._folder = root / "sha256"
        self._open_file = open_file
        with disk_errors("open the store"):
            make_directory(self._folder, _DIRECTORY_MODE)

    def put(self, stream: Readable, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """Commit all of `stream` and return its digest and size in bytes; it is durable when this returns.

        Raises IntegrityError for bytes that are not the expected ones and StorageError (`disk-full`, `disk`) for
        what the disk refuses; both leave nothing. What `stream.read` raises passes through.
        """
        hasher = Hasher()
        with incoming(self._folder, self._open_file) as file:
            while data := stream.read(CHUNK_BYTES):
                hasher.update(data)
                with disk_errors(f"write a blob at byte {hasher.size_bytes}"):
                    file.write(data)
            digest = hasher.digest()
            if expected is not None and digest != expected:
                raise IntegrityError("digest", f"expected {expected}, the {hasher.size_bytes} bytes have {digest}")
            with disk_errors(f"commit {digest}"):
                self._commit(file, digest, hasher.size_bytes)
        return digest, hasher.size_bytes

    def put_bytes(self, data: bytes, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """`put` of bytes in memory."""
        return self.put(io.BytesIO(data), expected=expected)

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """Read a blob. Raises BlobMissing now, IntegrityError at the end of bytes that differ."""
        with disk_errors(f"open {digest}"):
            try:
                return VerifyingReader(_BlobFile(self._path(digest), opener=_open_regular), digest, size_bytes)
            except FileNotFoundError as error:
                raise BlobMissing("blob-missing", f"{digest} is not in the store") from error

    def exists(self, digest: Digest) -> bool:
        """Whether a blob was committed under `digest`."""
        return self._path(digest).is_file()

    def digests(self) -> Iterator[Digest]:
        """Every committed digest, shard by shard."""
        with disk_errors("list the store"):
            for shard in sorted(self._folder.iterdir()):
                if shard.is_dir():
                    yield from (Digest(path.name) for path in sorted(shard.iterdir()) if _is_digest(path.name))

    def local_path(self, digest: Digest) -> Path | None:
        """The blob's own file, read-only; None if it is not there."""
        path = self._path(digest)
        return path if path.is_file() else None

    def folders(self) -> Iterator[Path]:
        """Where incoming files may lie, for the collector."""
        yield self._folder
        yield from (shard for shard in self._folder.iterdir() if shard.is_dir())

    def _path(self, digest: Digest) -> Path:
        return self._folder / digest.hex[:2] / digest.hex

    def _commit(self, file: IncomingFile, digest: Digest, size_bytes: int) -> None:
        final = self._path(digest)
        make_directory(final.parent, _DIRECTORY_MODE)
        if not file.publish(final) and not self._is_whole(digest, size_bytes):
            _log.warning("%s was damaged in the store and is replaced by the bytes just received", digest)
            file.replace(final)

    def _is_whole(self, digest: Digest, size_bytes: int) -> bool:
        try:
            with self.open(digest, size_bytes) as reader:
                for _ in reader:
                    pass
        except (IntegrityError, BlobMissing):
            return False
        return True


def _is_digest(name: str) -> bool:
    try:
        Digest(name)
    except InputError:
        return False
    return True
