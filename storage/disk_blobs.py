"""The blob store on a local disk: `<root>/sha256/<ab>/<64 hex>`, one read-only file per digest.

A blob is written and hashed without a name, made durable, and linked under its digest: so a name exists only for
bytes that are all there, a crash leaves nothing, and of two writers of the same bytes one finds the name taken. A
name is never replaced: a blob found damaged is first moved to `<root>/damaged/<64 hex>.<16 hex>`. What the collector
condemned has an empty file in `<root>/condemned/`.

Nothing is made on disk before something is stored, so that a store can be read where nothing can be written. Each put
waits for the disk, so who has many blobs puts them from a few threads: four write five times as many as one, and more
than eight no more.
"""

from __future__ import annotations

import io
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from contracts.digest import CHUNK_BYTES, Digest, Hasher, VerifyingReader
from contracts.errors import BlobMissing, InputError, IntegrityError, StorageError
from contracts.ports import Readable, StoredBlob
from storage.disk_errors import disk_errors
from storage.file_lock import file_lock
from storage.incoming import (
    OURS,
    FileAccess,
    IncomingFile,
    OpenIncoming,
    incoming,
    make_directory,
    open_incoming,
    remove_abandoned,
    sync_directory,
)
from storage.regular_file import open_regular

_DIRECTORY_MODE = 0o700
_log = logging.getLogger(__name__)


class _BlobFile(io.FileIO):
    """A blob's file; what the disk cannot read is a StorageError."""

    def read(self, limit: int | None = -1, /) -> bytes:
        with disk_errors("read a blob"):
            return super().read(-1 if limit is None else limit) or b""


class DiskBlobStore:
    """Blobs on disk; see contracts.ports.BlobBackend. Safe between threads and processes.

    `access` is that of the blobs' files: a staged file is another name of the same file, so who reads the one may read
    the other, if he gets to its folder.
    """

    settle_s = 0.0  # a mark is seen by every writer from the moment it stands

    def __init__(self, root: Path, *, access: FileAccess = OURS, open_file: OpenIncoming = open_incoming) -> None:
        self._folder = root / "sha256"
        self._damaged = root / "damaged"
        self._condemned = root / "condemned"
        self._locks = root / "locks"
        self._access = access
        self._open_file = open_file

    def put(self, data: bytes | Readable, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """Commit all of `data` and return its digest and size in bytes; it is durable when this returns.

        Raises IntegrityError for bytes that are not the expected ones and StorageError (`disk-full`, `disk-io`,
        `disk`) for what the disk refuses; both leave nothing. What `data.read` raises passes through.
        """
        stream = io.BytesIO(data) if isinstance(data, bytes) else data
        hasher = Hasher()
        with disk_errors("open the store"):
            make_directory(self._folder, _DIRECTORY_MODE)
        with incoming(self._folder, self._open_file) as file:
            while piece := stream.read(CHUNK_BYTES):
                hasher.update(piece)
                with disk_errors(f"write a blob at byte {hasher.size_bytes}"):
                    file.write(piece)
            digest = hasher.digest()
            if expected is not None and digest != expected:
                raise IntegrityError("digest", f"expected {expected}, the {hasher.size_bytes} bytes have {digest}")
            with disk_errors(f"commit {digest}"):
                self._commit(file, digest)
        return digest, hasher.size_bytes

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """Read a blob. Raises BlobMissing now, IntegrityError at the end of bytes that differ."""
        with disk_errors(f"open {digest}"):
            try:
                return VerifyingReader(_BlobFile(self._path(digest), opener=open_regular), digest, size_bytes)
            except FileNotFoundError as error:
                aside = any(self._damaged.glob(f"{digest.hex}.*"))
                why = "was damaged and set aside" if aside else "is not in the store"
                raise BlobMissing("blob-missing", f"{digest} {why}") from error

    def exists(self, digest: Digest) -> bool:
        """Whether a blob was committed under `digest`."""
        return self._path(digest).is_file()

    def blobs(self) -> Iterator[StoredBlob]:
        """Every committed blob, shard by shard."""
        for shard in _entries(self._folder):
            yield from _stored(shard)

    def quarantine(self, digest: Digest) -> bool:
        """Set a damaged blob aside; see contracts.ports.BlobQuarantine."""
        with self._lock(digest):
            try:
                damage = self._damage(digest)
            except BlobMissing:
                return False
            if damage is None:
                return False
            with disk_errors(f"set {digest} aside"):
                make_directory(self._damaged, _DIRECTORY_MODE)
                aside = self._damaged / f"{digest.hex}.{secrets.token_hex(8)}"
                self._path(digest).rename(aside)
                sync_directory(self._damaged)
                sync_directory(self._path(digest).parent)
        _log.error("a damaged blob was set aside as %s: %s", aside.name, damage)
        return True

    def quarantined(self) -> Iterator[StoredBlob]:
        """What was set aside."""
        return _stored(self._damaged)

    def condemn(self, digest: Digest) -> bool:
        """Phase 1 of a deletion; see contracts.ports.BlobDeletion."""
        with self._lock(digest), disk_errors(f"condemn {digest}"):
            if not self.exists(digest):
                return False
            make_directory(self._condemned, _DIRECTORY_MODE)
            with suppress(FileExistsError):
                os.close(os.open(self._mark(digest), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400))
                sync_directory(self._condemned)
        return True

    def condemned(self) -> Iterator[tuple[Digest, float]]:
        """What is condemned, and since when."""
        return ((each.digest, each.modified_at) for each in _stored(self._condemned))

    def spare(self, digest: Digest) -> None:
        """Lift the mark; a deletion that is going on is waited for."""
        if self._mark(digest).exists():
            with self._lock(digest), disk_errors(f"spare {digest}"):
                self._mark(digest).unlink(missing_ok=True)
                sync_directory(self._condemned)

    def delete_condemned(self, digest: Digest, since: float) -> bool:
        """Phase 2 of a deletion. The mark goes last, so that a killed one is ended by the next."""
        with self._lock(digest), disk_errors(f"delete {digest}"):
            try:
                if self._mark(digest).lstat().st_mtime > since:
                    return False
            except FileNotFoundError:
                return False
            with suppress(FileNotFoundError):
                self._path(digest).unlink()
                sync_directory(self._path(digest).parent)
            self._mark(digest).unlink()
            sync_directory(self._condemned)
        return True

    def local_path(self, digest: Digest) -> Path | None:
        """The blob's own file, read-only; None if it is not there."""
        path = self._path(digest)
        return path if path.is_file() else None

    def check(self) -> Mapping[str, bool]:
        """Nothing is in doubt: what a local disk does is the kernel's word."""
        return {}

    def remove_abandoned(self) -> int:
        """Remove the incoming files of killed writers, where the file system has no unnamed ones."""
        with disk_errors("list the store"):
            return remove_abandoned(self._folder) if self._folder.is_dir() else 0

    def close(self) -> None:
        """Nothing is open."""

    def _path(self, digest: Digest) -> Path:
        return self._folder / digest.hex[:2] / digest.hex

    def _mark(self, digest: Digest) -> Path:
        return self._condemned / digest.hex

    def _lock(self, digest: Digest) -> AbstractContextManager[None]:
        """Between those who take a blob's name away or decide whether to; who only adds names needs none."""
        with disk_errors("open the store"):
            make_directory(self._locks, _DIRECTORY_MODE)
        return file_lock(self._locks / digest.hex[:2])

    def _commit(self, file: IncomingFile, digest: Digest) -> None:
        final = self._path(digest)
        make_directory(final.parent, _DIRECTORY_MODE)
        self.spare(digest)
        while not file.publish(final, self._access):
            with suppress(BlobMissing):  # set aside by somebody else since: the name is free
                if self._damage(digest) is None:
                    return
                self.quarantine(digest)

    def _damage(self, digest: Digest) -> str | None:
        """What is wrong with a blob; None for a whole one. Raises BlobMissing."""
        try:
            with self.open(digest) as reader:
                reader.read_to_end()
        except IntegrityError as error:
            return error.reason
        except StorageError as error:
            if error.rule != "disk-io":
                raise
            return error.reason
        return None


def _entries(folder: Path) -> list[Path]:
    with disk_errors("list the store"):
        return sorted(folder.iterdir()) if folder.is_dir() else []


def _stored(folder: Path) -> Iterator[StoredBlob]:
    for path in _entries(folder):
        try:
            digest = Digest(path.name.partition(".")[0])
            found = path.lstat()
        except (InputError, FileNotFoundError):  # no name of ours, or gone since
            continue
        yield StoredBlob(digest, found.st_size, found.st_mtime)
