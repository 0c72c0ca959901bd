"""The store in a bucket: what it asks of a server, what it believes, and what a server that misbehaves does not get
away with."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.digest import Digest
from contracts.errors import BlobMissing, EvidenceError, InputError, IntegrityError, StorageError, StorageRefused
from storage.s3_blobs import MAX_PUT_BYTES, S3BlobStore, S3Store
from storage.s3_objects import checksum_of
from tests.services.seaweed import Seaweed, access_of
from tests.simulators.origin import Script, answer, drip, origin, raw, reset

DATA = bytes(range(256)) * 400
DIGEST = Digest.of(DATA)
BUCKET = "blobs"


@pytest.fixture
def prefix() -> str:
    """A prefix of a test's own: each bucket takes volumes of the server for itself, which has a few."""
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def server(seaweed: Seaweed) -> Seaweed:
    """The honest server, with buckets; `locked` has object lock."""
    with suppress(seaweed.client.exceptions.BucketAlreadyOwnedByYou):
        seaweed.bucket(BUCKET)
    seaweed.client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    return seaweed


def store_on(url: str, tmp_path: Path, store: S3Store, *, key: str | None = None, idle_s: float = 20.0) -> S3BlobStore:
    """A store of ours."""
    access = access_of(url, idle_s=idle_s) if key is None else access_of(url, key, idle_s=idle_s)
    return S3BlobStore(access, store, spool=tmp_path / "spool", settle_s=0.4)


def keys(server: Seaweed, prefix: str) -> list[str]:
    """The keys of all objects below a prefix."""
    listed = server.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"] for each in listed.get("Contents", ())]


def test_an_honest_server_passes_the_probe_and_keeps_nothing_of_it(
    server: Seaweed, prefix: str, tmp_path: Path
) -> None:
    """All that is asked was seen."""
    blobs = store_on(server.url, tmp_path, S3Store(BUCKET, prefix))
    seen = blobs.check()
    assert len(seen) == 6
    assert all(seen.values())
    assert keys(server, prefix) == []


def test_a_lying_server_is_refused_by_what_it_does_not_enforce(rclone: Seaweed, tmp_path: Path) -> None:
    """It answers every condition and every checksum with 200. Nothing is stored there, and no try helps."""
    rclone.bucket("lies")
    blobs = store_on(rclone.url, tmp_path, S3Store("lies"))
    with pytest.raises(StorageRefused, match=r"s3-not-enforced: .*create_once, checksums;") as refused:
        blobs.put(DATA)
    assert not refused.value.retryable
    assert rclone.client.list_objects_v2(Bucket="lies").get("Contents", []) == []


def test_a_lying_server_is_used_where_a_setting_says_so(
    rclone: Seaweed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning; what it says of a blob is never believed, so damage is still found; and it never deletes."""
    rclone.bucket("flagged")
    blobs = store_on(rclone.url, tmp_path, S3Store("flagged", unsafe=True))
    assert blobs.put(DATA) == (DIGEST, len(DATA))
    assert "does not enforce create_once, checksums" in caplog.text
    rclone.put("flagged", f"sha256/{DIGEST.hex[:2]}/{DIGEST.hex}", bytes(len(DATA)))
    blobs.put(DATA)
    with blobs.open(DIGEST) as reader:
        assert reader.read_all() == DATA
    assert [each.digest for each in blobs.quarantined()] == [DIGEST]
    with pytest.raises(StorageRefused, match="If-Match"):
        blobs.condemn(DIGEST)


def test_a_blob_has_its_checksum_at_the_server(server: Seaweed, prefix: str, tmp_path: Path) -> None:
    """At its digest's key, below the prefix and the tenant's step."""
    store_on(server.url, tmp_path, S3Store(BUCKET, prefix, "acme")).put(DATA)
    key = f"{prefix}/acme/sha256/{DIGEST.hex[:2]}/{DIGEST.hex}"
    assert keys(server, prefix) == [key]
    told = server.client.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    assert told["ChecksumSHA256"] == checksum_of(DIGEST)


def test_tenants_have_blobs_of_their_own(server: Seaweed, prefix: str, tmp_path: Path) -> None:
    """One is not told that another has the bytes."""
    store_on(server.url, tmp_path, S3Store(BUCKET, prefix, "acme")).put(DATA)
    other = store_on(server.url, tmp_path, S3Store(BUCKET, prefix, "umbrella"))
    assert not other.exists(DIGEST)
    assert list(other.blobs()) == []


def test_what_is_kept_by_object_lock_is_not_deleted(server: Seaweed, tmp_path: Path) -> None:
    """Each blob has its mode and its time, and the collector is told no."""
    blobs = store_on(server.url, tmp_path, S3Store("locked", lock_mode="GOVERNANCE", lock_days=3))
    blobs.put(DATA)
    told = server.client.head_object(Bucket="locked", Key=f"sha256/{DIGEST.hex[:2]}/{DIGEST.hex}")
    assert told["ObjectLockMode"] == "GOVERNANCE"
    assert abs(told["ObjectLockRetainUntilDate"] - datetime.now(UTC) - timedelta(days=3)) < timedelta(minutes=2)
    assert blobs.condemn(DIGEST)
    with pytest.raises(StorageRefused, match="blob-retained"):
        blobs.delete_condemned(DIGEST, time.time())
    assert blobs.exists(DIGEST)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"lock_mode": "GOVERNANCE"}, "lock_days"),
        ({"lock_days": 3}, "lock_mode"),
        ({"kms_key": "k"}, "aws:kms"),
        ({"kms_key": "k", "encryption": "AES256"}, "aws:kms"),
    ],
)
def test_options_that_say_nothing_alone_are_refused(options: dict[str, str | int], advice: str) -> None:
    """Before anything is asked of a server."""
    with pytest.raises(InputError, match=advice):
        S3Store(BUCKET, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "rule"),
    [("stranger", "s3-access-denied"), ("nobody", "s3-credentials")],
    ids=["no rights", "an unknown key"],
)
def test_a_store_that_cannot_be_used_is_told_at_once(server: Seaweed, tmp_path: Path, key: str, rule: str) -> None:
    """By its rule; no try helps, and no key is shown."""
    with pytest.raises(StorageRefused, match=rule) as refused:
        store_on(server.url, tmp_path, S3Store(BUCKET), key=key).check()
    assert "mosaic-tests" not in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_bucket_that_is_not_there_is_told(rclone: Seaweed, tmp_path: Path) -> None:
    """And is not made: who runs the server decides what it is."""
    blobs = store_on(rclone.url, tmp_path, S3Store("no-such-bucket"))
    with pytest.raises(StorageRefused, match="s3-bucket-missing"):
        blobs.put(DATA)
    with pytest.raises(StorageRefused, match="s3-bucket-missing"):
        blobs.open(DIGEST)


@pytest.mark.parametrize("form", ["bytes", "a stream"])
def test_more_than_one_request_takes_is_refused(server: Seaweed, prefix: str, tmp_path: Path, form: str) -> None:
    """Exactly as much is taken. A stream is read no further, so that it fills no disk."""
    access = access_of(server.url)
    blobs = S3BlobStore(access, S3Store(BUCKET, prefix), spool=tmp_path, max_put_bytes=len(DATA))
    assert MAX_PUT_BYTES == 5_368_709_120
    assert blobs.put(DATA if form == "bytes" else io.BytesIO(DATA))[1] == len(DATA)
    longer = DATA + b"x" if form == "bytes" else io.BufferedReader(_Endless())
    with pytest.raises(StorageRefused, match="blob-too-large"):
        blobs.put(longer)
    assert len(keys(server, prefix)) == 1


class _Endless(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return len(buffer)


def test_a_stream_is_spooled_without_a_name(server: Seaweed, prefix: str, tmp_path: Path) -> None:
    """Nothing of it is left, whether it was taken or not."""
    blobs = store_on(server.url, tmp_path, S3Store(BUCKET, prefix))

    seen: list[Path] = []

    class Looks(io.BytesIO):
        def read(self, limit: int | None = -1, /) -> bytes:
            seen.extend(tmp_path.rglob("spool/*"))
            return super().read(limit)

    blobs.put(Looks(DATA * 20))
    with pytest.raises(IntegrityError):
        blobs.put(Looks(DATA * 20), expected=DIGEST)
    assert seen == list(tmp_path.rglob("spool/*")) == []


def test_a_forked_process_has_a_client_of_its_own(server: Seaweed, prefix: str, tmp_path: Path) -> None:
    """It puts, and its parent goes on with the connections that it had."""
    blobs = store_on(server.url, tmp_path, S3Store(BUCKET, prefix))
    blobs.put(b"before")
    child = os.fork()
    if child == 0:
        blobs.put(b"in the child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for data in (b"before", b"in the child"):
        assert blobs.exists(Digest.of(data))


HEAD = {"ETag": '"e"', "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT", "Date": "Tue, 01 Dec 2026 00:00:00 GMT"}
_START = f"HTTP/1.1 200 OK\r\nContent-Length: {len(DATA)}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in HEAD.items())
BEGUN = f"{_START}\r\n".encode()
PATH = f"/{BUCKET}/sha256/{DIGEST.hex[:2]}/{DIGEST.hex}"


async def read_from(script: Script, tmp_path: Path, *, idle_s: float = 0.5) -> EvidenceError:
    """What reading a blob raises where a server answers with `script`."""

    def read(url: str) -> None:
        with store_on(url, tmp_path, S3Store(BUCKET), idle_s=idle_s).open(DIGEST, len(DATA)) as reader:
            reader.read_to_end()

    async with origin({PATH: script}) as simulated:
        with pytest.raises(EvidenceError) as raised:
            await asyncio.to_thread(read, simulated.url(""))
    assert raised.value.__cause__ is None  # what the library said may hold a URL with a signature
    return raised.value


READS: dict[str, tuple[Script, type[EvidenceError], str, bool]] = {
    "is unavailable": (answer("503 Slow Down", HEAD), StorageError, "s3-unavailable", True),
    "fails inside": (answer("500 Internal Server Error"), StorageError, "s3-unavailable", True),
    "has nothing": (answer("404 Not Found"), BlobMissing, "blob-missing", False),
    "denies": (answer("403 Forbidden"), StorageRefused, "s3-access-denied", False),
    "resets": (reset(b""), StorageError, "s3-connection", True),
    "resets in the body": (reset(BEGUN + DATA[:5_000]), StorageError, "s3-connection", True),
    "cuts the body": (raw(BEGUN + DATA[:5_000]), StorageError, "s3-connection", True),
    "stalls in the body": (drip(BEGUN + DATA[:5_000], b"", 60), StorageError, "s3-idle-timeout", True),
    "stalls at once": (drip(b"", b"", 60), StorageError, "s3-idle-timeout", True),
    "lies about bytes": (answer("200 OK", HEAD, bytes(len(DATA))), IntegrityError, "digest", False),
    "gives less": (answer("200 OK", HEAD, DATA[:-1]), IntegrityError, "size", False),
    "gives more": (answer("200 OK", HEAD, DATA + b"x"), IntegrityError, "size", False),
    "talks garbage": (answer("200 OK", {**HEAD, "Last-Modified": "never"}, DATA), StorageRefused, "s3-client", False),
}


@pytest.mark.parametrize("how", READS)
async def test_reading_from_a_server_that_misbehaves_fails_by_name(how: str, tmp_path: Path) -> None:
    """What a retry can help says so, and never do other bytes come to a good end."""
    script, kind, rule, retryable = READS[how]
    raised = await read_from(script, tmp_path)
    assert (type(raised), raised.rule, raised.retryable) == (kind, rule, retryable)


async def test_bytes_cut_on_their_way_are_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A blob that could not be read is not set aside for it."""
    async with origin({PATH: raw(BEGUN + DATA[:5_000])}) as simulated:
        blobs = store_on(simulated.url(""), tmp_path, S3Store(BUCKET))
        with pytest.raises(StorageError, match="s3-connection"):
            await asyncio.to_thread(blobs.quarantine, DIGEST)
    assert not any(b"PUT" in request or b"DELETE" in request for request in simulated.requests)


PUTS: dict[str, tuple[Script, str]] = {
    "is unavailable": (answer("503 Slow Down"), "s3-unavailable"),
    "resets": (reset(b""), "s3-connection"),
    "stalls": (drip(b"", b"", 60), "s3-idle-timeout"),
}


@pytest.mark.parametrize("how", PUTS)
async def test_nothing_is_stored_on_a_server_that_cannot_be_probed(
    how: str, tmp_path: Path, unscripted: Callable[[Script], dict[str, Script]]
) -> None:
    """It is told by name and a retry can help; the bytes are not even sent."""
    script, rule = PUTS[how]
    async with origin(unscripted(script)) as simulated:
        blobs = store_on(simulated.url(""), tmp_path, S3Store(BUCKET), idle_s=0.3)
        with pytest.raises(StorageError, match=rule) as raised:
            await asyncio.to_thread(blobs.put, DATA)
    assert raised.value.retryable
    assert not any(DIGEST.hex.encode() in request for request in simulated.requests)


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({"encryption": "AES256"}, [b"x-amz-server-side-encryption: AES256"]),
        (
            {"encryption": "aws:kms", "kms_key": "alias/evidence"},
            [b"x-amz-server-side-encryption: aws:kms", b"x-amz-server-side-encryption-aws-kms-key-id: alias/evidence"],
        ),
    ],
    ids=["AES256", "aws:kms"],
)
async def test_every_object_is_made_with_the_encryption_that_settings_name(
    options: dict[str, Any],
    headers: list[bytes],
    tmp_path: Path,
    unscripted: Callable[[Script], dict[str, Script]],
) -> None:
    """On the wire, from the probe's first object on: SeaweedFS has no keys to encrypt by."""
    async with origin(unscripted(answer("403 Forbidden"))) as simulated:
        blobs = store_on(simulated.url(""), tmp_path, S3Store(BUCKET, **options))
        with pytest.raises(StorageRefused, match="s3-access-denied"):
            await asyncio.to_thread(blobs.put, DATA)
    (first,) = simulated.requests
    assert first.startswith(b"PUT ")
    assert all(header.lower() in first.lower() for header in headers)


@pytest.fixture
def unscripted() -> Callable[[Script], dict[str, Script]]:
    """One script for every path."""

    class Always(dict[str, Script]):
        def __init__(self, script: Script) -> None:
            super().__init__()
            self.script = script

        def __missing__(self, path: str) -> Script:
            return self.script

    return Always


def test_credentials_are_in_no_log(
    server: Seaweed, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where everything is logged."""
    caplog.set_level(logging.DEBUG)
    store_on(server.url, tmp_path, S3Store(BUCKET, prefix)).put(DATA)
    assert caplog.records
    assert "seaweed-s3cret" not in caplog.text
    assert "Signature=" not in caplog.text
