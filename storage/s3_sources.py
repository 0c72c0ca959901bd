"""Objects as sources: an object's bytes into a descriptor, hashed and bounded while they arrive.

One GET is one version of an object (its ETag and version id are the answer's), so there is no second read that could
see another. boto3 blocks, and a thread cannot be canceled: each read has a thread of its own, which writes through its
own copy of the descriptor and is left behind when time is up or the task is canceled. It ends by itself at its next
read, and what it still writes reaches nobody.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from traceback import clear_frames
from typing import Any, TypeVar

from contracts.bucket_allowlist import allowing_entry
from contracts.digest import CHUNK_BYTES, Digest, Hasher
from contracts.errors import EvidenceError, FetchError, FetchUnavailable, IntegrityError, PolicyDenied
from contracts.limits import Limits
from contracts.locator import S3Source
from contracts.printable import printable
from contracts.records import AcquisitionRecord, Failure
from storage.into_descriptor import write_at
from storage.s3_client import CONNECTIONS, S3Access, S3Client
from storage.s3_refusals import refusal

_HEADER_CHARACTERS = 256  # of an ETag or a media type; RFC 9110 names no bound
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Had:
    """What one GET gave."""

    digest: Digest
    size_bytes: int
    media_type: str | None
    origin: dict[str, str]


class S3Sources:
    """Reads objects of allowed buckets; see the module. `buckets` as in contracts.bucket_allowlist."""

    def __init__(self, access: S3Access, buckets: Iterable[str], limits: Limits) -> None:
        self._client = S3Client(access)
        self._buckets = tuple(buckets)
        self._total_s = limits.fetch_total_s
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def acquire(
        self, source: S3Source, *, max_bytes: int, into: int, expected: Digest | None = None
    ) -> AcquisitionRecord:
        """Have the object in the descriptor `into`, from its beginning, at most `max_bytes` bytes.

        Refusals and failures are in the record: `s3-bucket-not-allowed` (PolicyDenied, nothing was asked of the
        store), `s3-over-limit`, `s3-other-version`, `s3-total-timeout`, `s3-checksum` and those of `s3_refusals`.
        Raises StorageError where the quarantine's disk fails. After a failure `into` is not to be used again: a read
        that was left behind may still write to it.
        """
        async with self._slots:
            started_at, started = time.time(), time.monotonic()
            origin = {"bucket": source.bucket, "key": source.key}
            had, failure = None, None
            try:
                origin["allowed_by"] = self._allowing(source)
                had = await self._read(source, max_bytes, into)
            except (PolicyDenied, FetchError, IntegrityError) as error:
                failure = Failure.of(error)
            query = "" if source.version_id is None else f"?versionId={source.version_id}"
            return AcquisitionRecord(
                source="s3",
                requested=source.url,
                requested_digest=Digest.of(f"{source.url}{query}".encode()),
                started_at=started_at,
                seconds=time.monotonic() - started,
                size_bytes=had.size_bytes if had else None,
                digest=had.digest if had else None,
                expected_digest=expected,
                media_type_claimed=had.media_type if had else None,
                origin={**origin, **had.origin} if had else origin,
                failure=failure,
            )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _allowing(self, source: S3Source) -> str:
        entry = allowing_entry(source, self._buckets)
        if entry is None:
            reason = f"{source.url}: this deployment's s3_source_buckets do not have it"
            raise PolicyDenied("s3-bucket-not-allowed", reason)
        return entry

    async def _read(self, source: S3Source, max_bytes: int, into: int) -> _Had:
        own, stop = os.dup(into), threading.Event()

        def read() -> _Had:
            try:
                return _read_object(self._client, source, max_bytes, own, stop)
            finally:
                os.close(own)

        try:
            async with asyncio.timeout(self._total_s):
                return await _in_own_thread(read)
        except TimeoutError:
            raise FetchUnavailable("s3-total-timeout", f"{source.url}: not all there in {self._total_s:g} s") from None
        finally:
            stop.set()


async def _in_own_thread(function: Callable[[], T]) -> T:
    """Run `function` in a thread that neither this task's cancellation nor the program's end waits for."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = function()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name="s3-source", daemon=True).start()
    return await ended


def _read_object(client: S3Client, source: S3Source, max_bytes: int, into: int, stop: threading.Event) -> _Had:
    version = {} if source.version_id is None else {"VersionId": source.version_id}
    try:
        answer = client.get().get_object(Bucket=source.bucket, Key=source.key, ChecksumMode="ENABLED", **version)
        with answer["Body"] as body:
            _check_head(source, answer, max_bytes)
            hasher = _copy(source, body, max_bytes, into, stop)
    except EvidenceError:
        raise
    except Exception as error:  # boto3 also lets errors of its parsers, of urllib3 and of Python through
        clear_frames(error.__traceback__)  # urllib3 leaves an answer it cannot read open, and its frames hold that
        raise refusal(error, source.url).fetch_error() from None  # its message may hold what ours must not
    _check_end(source, answer, hasher)
    facts = {"version_id": answer.get("VersionId"), "etag": answer.get("ETag")}
    return _Had(
        digest=hasher.digest(),
        size_bytes=hasher.size_bytes,
        media_type=_shown(answer.get("ContentType")),
        origin={name: shown for name, value in facts.items() if (shown := _shown(value)) is not None},
    )


def _check_head(source: S3Source, answer: dict[str, Any], max_bytes: int) -> None:
    version, size = answer.get("VersionId"), answer.get("ContentLength")
    if source.version_id is not None and version != source.version_id:
        reason = f"{source.url}: asked for version {source.version_id}, got {_shown(version) or 'none'}"
        raise FetchError("s3-other-version", reason)
    if size is not None and size > max_bytes:
        raise FetchError("s3-over-limit", f"{source.url}: expected at most {max_bytes} bytes, got {size}")


def _copy(source: S3Source, body: Any, max_bytes: int, into: int, stop: threading.Event) -> Hasher:
    """Copy urllib3's stream, which gives what has come (`read1`) instead of waiting for a whole chunk."""
    hasher = Hasher()
    while data := body.read1(CHUNK_BYTES, decode_content=False):
        if stop.is_set():
            raise FetchUnavailable("s3-abandoned", f"{source.url}: nobody waits for it any more")
        if hasher.size_bytes + len(data) > max_bytes:
            raise FetchError("s3-over-limit", f"{source.url}: expected at most {max_bytes} bytes, got more")
        write_at(into, data, hasher.size_bytes)
        hasher.update(data)
    return hasher


def _check_end(source: S3Source, answer: dict[str, Any], hasher: Hasher) -> None:
    size = answer.get("ContentLength")
    if size is not None and size != hasher.size_bytes:
        reason = f"{source.url}: expected {size} bytes, got {hasher.size_bytes}"
        raise FetchUnavailable("s3-connection", reason)
    stated = answer.get("ChecksumSHA256")
    if stated is None or "-" in stated or answer.get("ChecksumType") == "COMPOSITE":
        return  # of the parts of an upload, not of the bytes
    actual = base64.b64encode(bytes.fromhex(hasher.digest().hex)).decode()
    if stated != actual:
        raise IntegrityError("s3-checksum", f"{source.url}: the store's checksum is not that of its bytes")


def _shown(value: str | None) -> str | None:
    return None if value is None else printable(value)[:_HEADER_CHARACTERS]
