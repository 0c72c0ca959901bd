"""The blob store in a bucket: `<prefix>/sha256/<ab>/<64 hex>`, one object per digest, made by one PUT.

The bytes are hashed before they are sent, so the server is told their digest: it refuses other ones (ChecksumSHA256)
and never replaces an object (If-None-Match). A 412 says only that something is there, perhaps what our own first try
put before its answer was lost: it counts when the object was looked at. None of this is believed of a server that was
not seen to do it (s3_probe).
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from contracts.digest import CHUNK_BYTES, Digest, Hasher, VerifyingReader
from contracts.errors import BlobMissing, InputError, IntegrityError, StorageError, StorageRefused
from contracts.ports import Readable, StoredBlob
from storage.disk_errors import disk_errors
from storage.incoming import incoming, make_directory
from storage.s3_client import S3Access, S3Client
from storage.s3_condemned import Condemned
from storage.s3_objects import ConditionUnmet, S3Objects, checksum_of
from storage.s3_probe import Enforced, probe

MAX_PUT_BYTES = 5 * (1 << 30)  # of one PUT; Amazon S3, "Uploading objects"
SETTLE_S = 300.0  # longer than all tries of one request last: 4 of at most 65 s
_ASK_FIRST_BYTES = 1 << 20  # from here on sending bytes that are there already costs more than asking
_TRIES = 3  # of putting in the place of what was set aside or deleted meanwhile
_BLOBS, _DAMAGED = "sha256/", "damaged/"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class S3Store:
    """Where in object storage blobs are, and how they are kept.

    `prefix` has no slash at its ends; `tenant` adds a step to it. `encryption` and `kms_key` are x-amz-server-side
    ones, `lock_mode` and `lock_days` object lock. `unsafe` takes a server that does not enforce what the probe asks.
    """

    bucket: str
    prefix: str = ""
    tenant: str | None = None
    encryption: str | None = None
    kms_key: str | None = None
    lock_mode: str | None = None
    lock_days: int = 0
    unsafe: bool = False

    def __post_init__(self) -> None:
        """Raise InputError (s3-store-options) for options that say nothing without another."""
        if (self.lock_mode is None) != (self.lock_days == 0):
            raise InputError("s3-store-options", "s3_store_lock_mode and s3_store_lock_days go together")
        if self.kms_key is not None and self.encryption != "aws:kms":
            raise InputError("s3-store-options", "s3_store_kms_key needs s3_store_encryption aws:kms")

    @property
    def folder(self) -> str:
        """What all keys begin with."""
        return "".join(f"{step}/" for step in (self.prefix, self.tenant) if step)

    def made_with(self) -> dict[str, str]:
        """Parameters of every request that makes an object."""
        asked = {"ServerSideEncryption": self.encryption, "SSEKMSKeyId": self.kms_key}
        return {name: value for name, value in asked.items() if value is not None}

    def kept_with(self) -> dict[str, Any]:
        """Parameters of a request that makes a blob now."""
        if self.lock_mode is None:
            return {}
        until = datetime.now(UTC) + timedelta(days=self.lock_days)
        return {"ObjectLockMode": self.lock_mode, "ObjectLockRetainUntilDate": until}


class S3BlobStore:
    """Blobs in a bucket; see contracts.ports.BlobBackend. Safe between threads, processes and hosts.

    `spool` is a folder of this host: what comes as a stream lies there, without a name, until it is hashed.
    """

    def __init__(
        self,
        access: S3Access,
        store: S3Store,
        *,
        spool: Path,
        settle_s: float = SETTLE_S,
        max_put_bytes: int = MAX_PUT_BYTES,
    ) -> None:
        self._client = S3Client(access)
        self._store = store
        self._spool = spool
        self._objects = S3Objects(self._client, store.bucket, store.folder, store.made_with())
        self._condemned = Condemned(self._objects, settle_s)
        self.settle_s = settle_s
        self._max_put_bytes = max_put_bytes
        self._lock = threading.Lock()
        self._probed: Enforced | None = None

    def check(self) -> Mapping[str, bool]:
        """What the server enforces, measured once per process.

        Raises StorageRefused (`s3-not-enforced`) where something that blobs need is missing, if not `unsafe`.
        """
        return asdict(self._enforced())

    def put(self, data: bytes | Readable, *, expected: Digest | None = None) -> tuple[Digest, int]:
        """Commit all of `data` and return its digest and size in bytes; the store has it when this returns.

        Raises IntegrityError for bytes that are not the expected ones, StorageError for what the store or the disk
        that streams are spooled to refuses. What `data.read` raises passes through.
        """
        self._enforced()
        if isinstance(data, bytes):
            digest, size_bytes = _expect(Digest.of(data), len(data), expected)
            self._commit(digest, size_bytes, data)
            return digest, size_bytes
        with self._spooled(data) as (file, hasher):
            digest, size_bytes = _expect(hasher.digest(), hasher.size_bytes, expected)
            self._commit(digest, size_bytes, file)
        return digest, size_bytes

    def open(self, digest: Digest, size_bytes: int | None = None) -> VerifyingReader:
        """Read a blob. Raises BlobMissing now, IntegrityError at the end of bytes that differ."""
        try:
            return VerifyingReader(self._objects.get(_key(digest)), digest, size_bytes)
        except BlobMissing:
            raise BlobMissing("blob-missing", f"{digest} is not in the store") from None

    def exists(self, digest: Digest) -> bool:
        """Whether a blob was committed under `digest`."""
        try:
            self._objects.head(_key(digest))
        except BlobMissing:
            return False
        return True

    def blobs(self) -> Iterator[StoredBlob]:
        """Every committed blob."""
        return self._stored(_BLOBS)

    def quarantine(self, digest: Digest) -> bool:
        """Set a damaged blob aside; see contracts.ports.BlobQuarantine."""
        try:
            damage = self._damage(digest)
            if damage is None:
                return False
            reason, etag = damage
            aside = f"{_DAMAGED}{digest.hex}.{uuid.uuid4().hex[:16]}"
            self._objects.copy(_key(digest), aside, etag=etag)
            self._objects.delete(_key(digest), etag=etag)
        except (BlobMissing, ConditionUnmet):  # another was faster
            return False
        _log.error("a damaged blob was set aside as %s: %s", aside, reason)
        return True

    def quarantined(self) -> Iterator[StoredBlob]:
        """What was set aside."""
        return self._stored(_DAMAGED)

    def condemn(self, digest: Digest) -> bool:
        """Phase 1 of a deletion; see contracts.ports.BlobDeletion."""
        self._check_deletes()
        if not self.exists(digest):
            return False
        self._condemned.mark(digest)
        return True

    def condemned(self) -> Iterator[tuple[Digest, float]]:
        """What is condemned, and since when."""
        return self._condemned.all()

    def spare(self, digest: Digest) -> None:
        """Lift the mark."""
        self._condemned.spare(digest)

    def delete_condemned(self, digest: Digest, since: float) -> bool:
        """Phase 2 of a deletion. In a bucket that keeps versions the bytes stay as an older one."""
        self._check_deletes()
        if (until := self._locked_until(digest)) is not None:
            raise StorageRefused("blob-retained", f"{digest} is locked until {datetime.fromtimestamp(until, UTC)}")
        if not self._condemned.claim(digest, since):
            return False
        self._objects.delete(_key(digest))
        self._condemned.end(digest)
        return True

    def remove_abandoned(self) -> int:
        """Nothing: a PUT makes a whole object or none, and what was spooled had no name."""
        return 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _commit(self, digest: Digest, size_bytes: int, body: bytes | BinaryIO) -> None:
        self._bound(size_bytes)
        self._condemned.spare_if_listed(digest)
        enforced = self._enforced()
        if (size_bytes >= _ASK_FIRST_BYTES or not enforced.create_once) and self._is_there(digest, size_bytes):
            return
        for _ in range(_TRIES):
            if not isinstance(body, bytes):
                body.seek(0)
            try:
                self._objects.put(_key(digest), body, sha256=digest, IfNoneMatch="*", **self._store.kept_with())
            except ConditionUnmet:
                if self._is_there(digest, size_bytes):
                    return
                continue
            if enforced.checksums or self._damage(digest) is None:
                return
        raise StorageError("blob-unstable", f"{digest}: something else stood there {_TRIES} times")

    def _is_there(self, digest: Digest, size_bytes: int) -> bool:
        """Whether the whole blob is there; one that is damaged is set aside."""
        with suppress(BlobMissing):
            found = self._objects.head(_key(digest))
            told = self._enforced().tells_checksums and found.sha256 == checksum_of(digest)
            if found.size_bytes == size_bytes and (told or self._damage(digest) is None):
                return True
            self.quarantine(digest)
        return False

    def _damage(self, digest: Digest) -> tuple[str, str] | None:
        """What is wrong with a blob, and its ETag; None for a whole one. Raises BlobMissing."""
        body = self._objects.get(_key(digest))
        try:
            with VerifyingReader(body, digest) as reader:
                reader.read_to_end()
        except IntegrityError as error:
            return error.reason, body.facts.etag
        return None

    def _locked_until(self, digest: Digest) -> float | None:
        try:
            found = self._objects.head(_key(digest))
        except BlobMissing:
            return None
        return found.locked_until if found.locked_until is not None and found.locked_until > found.now else None

    def _enforced(self) -> Enforced:
        with self._lock:
            if self._probed is None:
                self._probed = self._measured()
            return self._probed

    def _measured(self) -> Enforced:
        intruder = self._client.with_wrong_secret()
        try:
            enforced = probe(self._objects, intruder)
        finally:
            intruder.close()
        if missing := enforced.missing():
            told = f"s3://{self._store.bucket}: the server does not enforce {', '.join(missing)}"
            if not self._store.unsafe:
                raise StorageRefused("s3-not-enforced", f"{told}; blobs are not safe there (unsafe_s3_store takes it)")
            _log.warning("%s; unsafe_s3_store is set, so blobs are stored there all the same", told)
        return enforced

    def _check_deletes(self) -> None:
        if not self._enforced().if_match:
            reason = f"s3://{self._store.bucket}: the server ignores If-Match, so that a deletion could meet a put"
            raise StorageRefused("s3-not-enforced", reason)

    def _bound(self, size_bytes: int) -> None:
        if size_bytes > self._max_put_bytes:
            reason = f"expected at most {self._max_put_bytes} bytes, as one request takes, got {size_bytes} or more"
            raise StorageRefused("blob-too-large", reason)

    @contextmanager
    def _spooled(self, stream: Readable) -> Iterator[tuple[BinaryIO, Hasher]]:
        hasher = Hasher()
        with disk_errors("open the spool"):
            make_directory(self._spool, 0o700)
        with incoming(self._spool) as file:
            while data := stream.read(CHUNK_BYTES):
                hasher.update(data)
                self._bound(hasher.size_bytes)
                with disk_errors(f"spool a blob at byte {hasher.size_bytes}"):
                    file.write(data)
            with os.fdopen(os.dup(file.fd), "rb") as body:
                yield body, hasher

    def _stored(self, folder: str) -> Iterator[StoredBlob]:
        for name, size_bytes, modified_at in self._objects.list(folder):
            with suppress(InputError):  # no name of ours
                yield StoredBlob(Digest(name.rpartition("/")[2].partition(".")[0]), size_bytes, modified_at)


def _expect(digest: Digest, size_bytes: int, expected: Digest | None) -> tuple[Digest, int]:
    if expected is not None and digest != expected:
        raise IntegrityError("digest", f"expected {expected}, the {size_bytes} bytes have {digest}")
    return digest, size_bytes


def _key(digest: Digest) -> str:
    return f"{_BLOBS}{digest.hex[:2]}/{digest.hex}"
