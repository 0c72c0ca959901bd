"""Objects below one prefix of a bucket: the few requests that the store of blobs is made of, and their failures in
our words. Every request may be tried several times by the client, so it may have worked before it failed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO

from contracts.digest import Digest
from contracts.errors import EvidenceError, StorageError
from storage.s3_client import S3Client
from storage.s3_refusals import CONDITION, refusal


class ConditionUnmet(StorageError):
    """The object's state was not the one that the request asked for; nothing was changed."""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a store says of an object. Times are epoch seconds of the store's clock, `now` that of its answer."""

    size_bytes: int
    etag: str
    modified_at: float
    now: float
    sha256: str | None = None
    locked_until: float | None = None


class ObjectBody:
    """The bytes of an object while they arrive. Raises StorageError where they end before all came."""

    def __init__(self, facts: ObjectFacts, raw: Any, what: str) -> None:
        self.facts = facts
        self._raw = raw
        self._what = what
        self._got = 0

    def read(self, limit: int, /) -> bytes:
        """Up to `limit` bytes; b"" is the end, where all that the store announced has come."""
        with _refusals(self._what):
            data: bytes = self._raw.read(limit, decode_content=False)
        self._got += len(data)
        if not data and limit and self._got != self.facts.size_bytes:
            reason = f"{self._what}: expected {self.facts.size_bytes} bytes, got {self._got}"
            raise StorageError("s3-connection", reason)
        return data

    def close(self) -> None:
        """Close the answer; a connection that it did not read to its end is not used again."""
        self._raw.close()


class S3Objects:
    """The objects of `bucket` below `prefix`, which is empty or ends with a slash. Keys are relative to it.

    `extra` are parameters of every request that makes an object (encryption). Raises StorageError (a retry can help),
    StorageRefused (none can), BlobMissing where there is no object, ConditionUnmet.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str, extra: dict[str, Any]) -> None:
        self.client = client
        self.bucket = bucket
        self.prefix = prefix
        self._extra = extra

    def put(self, key: str, body: bytes | BinaryIO, *, sha256: Digest | None = None, **conditions: Any) -> None:
        """Make an object in one request; `conditions` are boto3's (IfNoneMatch, IfMatch, ObjectLock…)."""
        checked = {} if sha256 is None else {"ChecksumSHA256": checksum_of(sha256)}
        with _refusals(self._name(key)):
            self.client.get().put_object(Body=body, **self._at(key), **checked, **self._extra, **conditions)

    def get(self, key: str) -> ObjectBody:
        """Open an object."""
        with _refusals(self._name(key)):
            answer = self.client.get().get_object(**self._at(key))
            return ObjectBody(_facts(answer), answer["Body"].__enter__(), self._name(key))

    def head(self, key: str) -> ObjectFacts:
        """What the store says of an object."""
        with _refusals(self._name(key)):
            return _facts(self.client.get().head_object(ChecksumMode="ENABLED", **self._at(key)))

    def copy(self, key: str, to: str, *, etag: str) -> None:
        """Copy within the store, if the object is still the one of `etag`."""
        source = {"Bucket": self.bucket, "Key": self.prefix + key}
        with _refusals(self._name(key)):
            self.client.get().copy_object(CopySource=source, CopySourceIfMatch=etag, **self._at(to), **self._extra)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, with `etag` only if it is still that one. One that is not there is no error."""
        condition = {} if etag is None else {"IfMatch": etag}
        with _refusals(self._name(key)):
            self.client.get().delete_object(**self._at(key), **condition)

    def list(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """Name below `folder`, size in bytes and time of every object there."""
        start = self.prefix + folder
        with _refusals(self._name(folder)):
            for page in self.client.get().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start):
                for each in page.get("Contents", ()):
                    yield each["Key"].removeprefix(start), each["Size"], each["LastModified"].timestamp()

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + key}

    def _name(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{key}"


def checksum_of(digest: Digest) -> str:
    """A digest in the form of x-amz-checksum-sha256."""
    return base64.b64encode(bytes.fromhex(digest.hex)).decode()


def _facts(answer: dict[str, Any]) -> ObjectFacts:
    now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp()
    until: datetime | None = answer.get("ObjectLockRetainUntilDate")
    return ObjectFacts(
        size_bytes=answer["ContentLength"],
        etag=answer["ETag"],
        modified_at=answer["LastModified"].timestamp(),
        now=now,
        sha256=answer.get("ChecksumSHA256"),
        locked_until=None if until is None else until.timestamp(),
    )


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except EvidenceError:
        raise
    except Exception as error:
        refused = refusal(error, what)
        if refused.rule == CONDITION:
            raise ConditionUnmet(refused.rule, refused.reason) from None
        raise refused.storage_error() from None  # the error's own message may hold what ours must not
