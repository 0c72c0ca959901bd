"""Objects as sources: what a real store gives, and what a store that misbehaves does not get away with."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.locator import S3Source
from contracts.records import AcquisitionRecord
from settings.secret import Secret
from storage.s3_client import S3Access, S3Client
from storage.s3_sources import S3Sources
from tests.command import eventually
from tests.services.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed, access_of
from tests.simulators.origin import Script, answer, drip, origin, raw, reset

ROOT = Path(__file__).parents[2]
DATA = bytes(range(256)) * 4_096
MIB = 1 << 20
QUICK = replace(Limits(), fetch_connect_s=1.0, fetch_idle_s=0.5, fetch_total_s=5.0)
PATH = "/evidence/a.png"
OBJECT = S3Source("evidence", "a.png")


@pytest.fixture
def into() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def access(url: str, key: str = ACCESS_KEY, secret: str = SECRET_KEY, limits: Limits = QUICK) -> S3Access:
    """Access with credentials of the tests."""
    return access_of(url, key, secret, connect_s=limits.fetch_connect_s, idle_s=limits.fetch_idle_s)


def sources(url: str, *buckets: str, limits: Limits = QUICK, key: str = ACCESS_KEY) -> S3Sources:
    """Sources of the server at `url`, from `buckets` or from all that a test uses."""
    return S3Sources(access(url, key, limits=limits), buckets or ("evidence", "versions"), limits)


@pytest.fixture(scope="module")
def store(seaweed: Seaweed) -> Seaweed:
    """The server with two buckets; `versions` keeps versions."""
    seaweed.bucket("evidence")
    seaweed.bucket("versions", versioned=True)
    seaweed.bucket("closed")
    return seaweed


def rule(record: AcquisitionRecord) -> tuple[str, str]:
    """The class and the rule that an acquisition failed by."""
    assert record.failure is not None
    assert (record.digest, record.size_bytes) == (None, None)
    return record.failure.error, record.failure.rule


async def test_an_object_has_its_bytes_and_its_record(store: Seaweed, into: int) -> None:
    """Hashed while it came, named by bucket, key and ETag, with the entry that allowed it; the descriptor stays put."""
    store.put("evidence", "case 7/ü+b.png", DATA)
    record = await sources(store.url).acquire(S3Source("evidence", "case 7/ü+b.png"), max_bytes=len(DATA), into=into)
    assert record.had() == (Digest.of(DATA), len(DATA))
    assert os.read(into, 2 * len(DATA)) == DATA
    assert (record.source, record.requested) == ("s3", "s3://evidence/case 7/ü+b.png")
    assert record.requested_digest == Digest.of("s3://evidence/case 7/ü+b.png".encode())
    etag = store.client.head_object(Bucket="evidence", Key="case 7/ü+b.png")["ETag"]
    place = {"bucket": "evidence", "key": "case 7/ü+b.png", "allowed_by": "evidence"}
    assert record.origin == {**place, "etag": etag}
    assert record.to_json()["origin"] == record.origin


async def test_a_version_is_the_one_that_was_asked_for(store: Seaweed, into: int) -> None:
    """The older bytes are had by their version; without one the current bytes, and the record says which they are."""
    old, new = store.put("versions", "a.png", b"old bytes"), store.put("versions", "a.png", b"new")
    assert old is not None
    reader = sources(store.url)
    first = await reader.acquire(S3Source("versions", "a.png", old), max_bytes=100, into=into)
    assert (first.had()[0], first.origin["version_id"]) == (Digest.of(b"old bytes"), old)
    assert first.requested_digest == Digest.of(f"s3://versions/a.png?versionId={old}".encode())
    with tempfile.TemporaryFile() as other:
        current = await reader.acquire(S3Source("versions", "a.png"), max_bytes=100, into=other.fileno())
    assert (current.had()[0], current.origin["version_id"]) == (Digest.of(b"new"), new)


async def test_what_the_store_does_not_have_or_give_fails_by_name(store: Seaweed, into: int) -> None:
    """Objects, versions, deleted objects and buckets that are not there, and keys that open nothing."""
    store.put("evidence", "a.png", DATA)
    old = store.put("versions", "gone.png", b"old")
    store.client.delete_object(Bucket="versions", Key="gone.png")
    reader = sources(store.url, "evidence", "versions", "no-such-bucket")
    for source, expected in {
        S3Source("evidence", "none.png"): "s3-object-missing",
        S3Source("versions", "gone.png"): "s3-object-missing",
        S3Source("versions", "gone.png", "0" * 32): "s3-object-missing",
        S3Source("no-such-bucket", "a.png"): "s3-bucket-missing",
    }.items():
        record = await reader.acquire(source, max_bytes=MIB, into=into)
        assert rule(record) == ("FetchError", expected)
    kept = await reader.acquire(S3Source("versions", "gone.png", old), max_bytes=MIB, into=into)
    assert kept.had()[0] == Digest.of(b"old")
    stranger = await sources(store.url, key="stranger").acquire(OBJECT, max_bytes=MIB, into=into)
    assert rule(stranger) == ("FetchError", "s3-access-denied")
    nobody = await sources(store.url, key="nobody").acquire(OBJECT, max_bytes=MIB, into=into)
    assert rule(nobody) == ("FetchError", "s3-credentials")


async def test_only_listed_buckets_are_asked(into: int) -> None:
    """What is not listed is a denial of policy, and no byte goes to the store for it."""
    async with origin({}) as server:
        for buckets, source in [
            (("other",), OBJECT),
            (("evidence/case-7",), S3Source("evidence", "case-70/a.png")),
            (("evidence/case-7",), OBJECT),
        ]:
            record = await sources(server.url(""), *buckets).acquire(source, max_bytes=MIB, into=into)
            assert rule(record) == ("PolicyDenied", "s3-bucket-not-allowed")
            assert "allowed_by" not in record.origin
        empty = S3Sources(access(server.url("")), (), QUICK)
        assert rule(await empty.acquire(OBJECT, max_bytes=MIB, into=into))[1] == "s3-bucket-not-allowed"
    assert server.connections == 0


async def test_size_is_bounded_by_the_head_and_by_the_bytes(store: Seaweed, into: int) -> None:
    """Exactly the limit is taken, one byte more is not; without a length the bytes are counted."""
    store.put("evidence", "a.png", DATA)
    reader = sources(store.url)
    assert (await reader.acquire(OBJECT, max_bytes=len(DATA), into=into)).size_bytes == len(DATA)
    assert rule(await reader.acquire(OBJECT, max_bytes=len(DATA) - 1, into=into)) == ("FetchError", "s3-over-limit")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(DATA), DATA) for _ in range(3)) + b"0\r\n\r\n"
    endless = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    async with origin({PATH: endless}) as server:
        record = await sources(server.url("")).acquire(OBJECT, max_bytes=2 * len(DATA), into=into)
        assert rule(record) == ("FetchError", "s3-over-limit")
        assert os.fstat(into).st_size <= 2 * len(DATA)
        whole = await sources(server.url("")).acquire(OBJECT, max_bytes=3 * len(DATA), into=into)
        assert whole.digest == Digest.of(DATA * 3)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
MISBEHAVING: dict[str, tuple[Script, str, str]] = {
    "a body that ends early": (raw(HEAD + b"x"), "FetchUnavailable", "s3-connection"),
    "a reset in the body": (reset(HEAD + b"x" * 1_000), "FetchUnavailable", "s3-connection"),
    "a body that stops": (drip(HEAD + b"x", b"", 9), "FetchUnavailable", "s3-idle-timeout"),
    "a body that drips": (drip(HEAD, b"x", 0.1), "FetchUnavailable", "s3-total-timeout"),
    "a head that drips": (drip(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.1), "FetchUnavailable", "s3-total-timeout"),
    "a head that is none": (raw(b"SSH-2.0-OpenSSH\r\n\r\n"), "FetchUnavailable", "s3-connection"),
    "a page of a proxy": (answer("403 Forbidden", body=b"<html>no</body>"), "FetchError", "s3-access-denied"),
    "a length that is none": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "FetchError", "s3-client"),
    "an error that tells": (
        answer("400 Bad Request", body=b"<Error><Code>s3cret &#10;token</Code></Error>"),
        "FetchError",
        "s3-refused",
    ),
    "an archived object": (
        answer("403 Forbidden", body=b"<Error><Code>InvalidObjectState</Code></Error>"),
        "FetchError",
        "s3-archived",
    ),
    "a store that is busy": (
        answer("503 Slow Down", body=b"<Error><Code>SlowDown</Code></Error>"),
        "FetchUnavailable",
        "s3-unavailable",
    ),
    "a checksum of other bytes": (
        answer("200 OK", {"x-amz-checksum-sha256": base64.b64encode(bytes(32)).decode()}, b"bytes"),
        "IntegrityError",
        "s3-checksum",
    ),
}


@pytest.mark.parametrize("total_s", [1.5, 60.0], ids=["drips", "all else"])
async def test_a_store_that_misbehaves_is_told_by_name(total_s: float) -> None:
    """Within the time that is allowed, by an error of ours, whose words hold nothing of what was answered."""
    cases = {what: case for what, case in MISBEHAVING.items() if ("drips" in what) is (total_s < 10)}
    async with origin({f"/evidence/{n}": script for n, (script, _, _) in enumerate(cases.values())}) as server:
        reader = sources(server.url(""), limits=replace(QUICK, fetch_total_s=total_s))

        async def read(number: int) -> AcquisitionRecord:
            with tempfile.TemporaryFile() as file:
                return await reader.acquire(S3Source("evidence", str(number)), max_bytes=MIB, into=file.fileno())

        records = await asyncio.gather(*map(read, range(len(cases))))
    told = dict(zip(cases, map(rule, records), strict=True))
    assert told == {what: (error, expected) for what, (_, error, expected) in cases.items()}
    for number, record in enumerate(records):
        assert record.failure is not None
        assert record.failure.reason.startswith(f"s3://evidence/{number}: ")
        assert "s3cret" not in record.failure.reason


async def test_reads_that_failed_leave_no_connections_open(into: int) -> None:
    """Whatever they failed by, and without Python's collector of cycles: none but the one kept for the next read."""
    endless = ("drips", "stops")  # the server's end of these stays open
    scripts = {what: case[0] for what, case in MISBEHAVING.items() if not what.endswith(endless)}
    gc.disable()
    try:
        async with origin({f"/evidence/{n}": script for n, script in enumerate(scripts.values())}) as server:
            for number, what in enumerate(scripts):
                reader = sources(server.url(""))
                allowed = _open_descriptors() + 1
                for _ in range(3):
                    rule(await reader.acquire(S3Source("evidence", str(number)), max_bytes=MIB, into=into))
                await eventually(partial(_at_most_open, allowed), f"closed after {what}")
                reader.close()
    finally:
        gc.enable()


async def test_another_version_than_asked_for_is_refused(into: int) -> None:
    """Also none at all: a server that ignores versions gives the bytes of now."""
    for headers in ({"x-amz-version-id": "other"}, {}):
        async with origin({"/evidence/a.png?versionId=v1": answer("200 OK", headers, b"now")}) as server:
            source = S3Source("evidence", "a.png", "v1")
            record = await sources(server.url("")).acquire(source, max_bytes=MIB, into=into)
        assert rule(record) == ("FetchError", "s3-other-version")


async def test_a_canceled_read_ends_at_once_and_writes_no_more(into: int) -> None:
    """The descriptor is closed and its number given to another file while the store goes on sending."""
    async with origin({PATH: drip(HEAD, b"x" * 100, 0.05)}) as server:
        task = asyncio.ensure_future(sources(server.url("")).acquire(OBJECT, max_bytes=MIB, into=into))
        await asyncio.to_thread(_wait_for_bytes, into)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 0.4)
        with tempfile.TemporaryFile() as innocent:
            os.dup2(innocent.fileno(), into)
            left = [thread for thread in threading.enumerate() if thread.name == "s3-source"]
            await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in left))
            assert left
            assert os.fstat(innocent.fileno()).st_size == 0


async def test_no_log_and_no_error_holds_a_credential(into: int, caplog: pytest.LogCaptureFixture) -> None:
    """Not even with every logger at its most talkative."""
    caplog.set_level(logging.DEBUG)
    loud = replace(access("http://127.0.0.1:1"), session_token=Secret("t0ken-of-the-session"))
    async with origin({PATH: answer("200 OK", body=b"bytes")}) as server:
        for each in (loud, replace(loud, endpoint_url=server.url(""))):
            record = await S3Sources(each, ["evidence"], QUICK).acquire(OBJECT, max_bytes=MIB, into=into)
            shown = f"{caplog.text} {record} {each}"
            assert not any(secret in shown for secret in (SECRET_KEY, "t0ken-of-the-session", "Signature="))
    assert b"t0ken-of-the-session" in server.requests[0]  # it was used


async def test_neither_proxy_nor_endpoint_is_taken_from_the_environment(into: int) -> None:
    """Where credentials go, the settings say."""
    trap = "http://127.0.0.1:1"
    traps = {"HTTP_PROXY": trap, "http_proxy": trap, "AWS_ENDPOINT_URL": trap, "AWS_ENDPOINT_URL_S3": trap}
    before = dict(os.environ)
    os.environ.update(traps)
    try:
        async with origin({PATH: answer("200 OK", body=b"bytes")}) as server:
            record = await sources(server.url("")).acquire(OBJECT, max_bytes=MIB, into=into)
        assert record.had()[0] == Digest.of(b"bytes")
        assert S3Client(replace(access(""), endpoint_url=None)).get().meta.endpoint_url.endswith(".amazonaws.com")
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_half_a_pair_of_keys_is_refused() -> None:
    """Rather than finding another pair elsewhere."""
    whole = access("http://127.0.0.1:1")
    for half in ({"access_key_id": None}, {"secret_access_key": None}):
        with pytest.raises(InputError, match="s3-credentials-half"):
            replace(whole, **half)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="s3-credentials-half"):
        replace(whole, access_key_id=None, secret_access_key=None, session_token=Secret("t"))


def test_a_forked_process_has_a_client_of_its_own() -> None:
    """Connections and locks of the parent are not shared with it."""
    client = S3Client(access("http://127.0.0.1:1"))
    ours = client.get()
    assert client.get() is ours

    def child() -> None:
        theirs = client.get()
        os._exit(0 if theirs is not ours and client.get() is theirs else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    assert client.get() is ours


def test_boto3_is_imported_by_the_first_read_alone() -> None:
    """A command that reads no object does not pay for it."""
    program = "import sys, storage.s3_sources; assert not {'boto3', 'botocore', 'urllib3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def _wait_for_bytes(descriptor: int) -> None:
    while os.fstat(descriptor).st_size == 0:
        time.sleep(0.01)


def _at_most_open(allowed: int) -> bool:
    return _open_descriptors() <= allowed


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
