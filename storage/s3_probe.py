"""What an S3 server really does, measured with small objects below `probe/` of the store's prefix.

Servers that speak S3 differ in just what a store by digest stands on: some answer 200 where a condition does not hold,
and some take any checksum. What they do not enforce is not in any of their answers, so it is tried.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from contracts.digest import Digest
from contracts.errors import BlobMissing, StorageError, StorageRefused
from storage.s3_client import S3Client
from storage.s3_objects import ConditionUnmet, S3Objects, checksum_of
from storage.s3_refusals import refusal

_log = logging.getLogger(__name__)
_ONE, _TWO = b"one", b"two"


@dataclass(frozen=True, slots=True)
class Enforced:
    """What a server was seen to do; False is "was not seen to"."""

    create_once: bool  # If-None-Match: a second PUT is 412 and changes nothing
    checksums: bool  # a body that is not that of ChecksumSHA256 is refused and leaves nothing
    credentials: bool  # the same request with a wrong secret is refused
    read_after_write: bool  # what was put can be read at once
    if_match: bool  # a PUT and a DELETE for another ETag are 412 and change nothing: deletion needs it
    tells_checksums: bool  # HEAD repeats the checksum that the server verified: saves reading what is there already

    def missing(self) -> tuple[str, ...]:
        """What a store of blobs cannot do without, and the server does not do."""
        needed = ("create_once", "checksums", "credentials", "read_after_write")
        return tuple(name for name in needed if not getattr(self, name))


def probe(objects: S3Objects, intruder: S3Client) -> Enforced:
    """Measure. `intruder` has the client's key with a wrong secret.

    Raises StorageError for a server that cannot be asked (no bucket, no rights, not there). Leaves no object, save
    where this client must not delete: that is logged.
    """
    key = f"probe/{uuid.uuid4().hex}"
    objects.put(key, _ONE, IfNoneMatch="*")
    try:
        read_after_write = _reads(objects, key, _ONE)
        create_once = _refused(lambda: objects.put(key, _TWO, IfNoneMatch="*")) and _reads(objects, key, _ONE)
        checksums = _checks(objects, f"{key}-checksum")
        objects.put(f"{key}-told", _ONE, sha256=Digest.of(_ONE))
        return Enforced(
            create_once=create_once,
            checksums=checksums,
            credentials=_keeps_out(objects, intruder, key),
            read_after_write=read_after_write,
            if_match=_compares(objects, key),
            tells_checksums=checksums and objects.head(f"{key}-told").sha256 == checksum_of(Digest.of(_ONE)),
        )
    finally:
        with _logged("the probe's objects are left in the store"):
            for left in (key, f"{key}-checksum", f"{key}-told"):
                objects.delete(left)


def _checks(objects: S3Objects, key: str) -> bool:
    try:
        objects.put(key, _ONE, sha256=Digest.of(_TWO))
    except StorageRefused:
        return not _reads(objects, key, _ONE)
    return False


def _compares(objects: S3Objects, key: str) -> bool:
    other = '"' + "0" * 32 + '"'
    refused = _refused(lambda: objects.put(key, _TWO, IfMatch=other)) and _refused(
        lambda: objects.delete(key, etag=other)
    )
    return refused and _reads(objects, key, _ONE)


def _keeps_out(objects: S3Objects, intruder: S3Client, key: str) -> bool:
    try:
        intruder.get().head_object(Bucket=objects.bucket, Key=objects.prefix + key)
    except Exception as error:  # translated: what is not an answer is raised
        refused = refusal(error, "the probe with a wrong secret")
        if refused.status in (400, 401, 403):
            return True
        raise refused.storage_error() from None
    return False


def _refused(request: Callable[[], None]) -> bool:
    try:
        request()
    except ConditionUnmet:
        return True
    except StorageRefused:  # 501: a server that says that it does not know the condition
        return False
    return False


def _reads(objects: S3Objects, key: str, expected: bytes) -> bool:
    try:
        body = objects.get(key)
    except BlobMissing:
        return False
    try:
        return body.read(len(expected) + 1) == expected
    finally:
        body.close()


@contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        _log.warning("%s: %s", what, error)
