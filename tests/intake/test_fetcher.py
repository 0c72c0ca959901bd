"""The fetcher: the real confined child against a hostile origin on loopback."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from contracts.digest import Digest
from contracts.errors import ChildFailed, EvidenceError, FetchError, FetchUnavailable, InputError, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_WEB, NetworkPolicy
from contracts.records import AcquisitionRecord
from intake.fetcher import Fetcher
from tests.simulators.origin import BODY, Script, answer, drip, origin, raw, redirect, reset

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
LIMITS = Limits().changed(
    {
        "fetch_connect_s": 1.0,
        "fetch_head_s": 0.6,
        "fetch_idle_s": 0.4,
        "fetch_total_s": 0.9,
        "fetch_rate_grace_s": 0.2,
        "fetch_header_bytes": 4096,
        "fetch_headers": 32,
        "fetch_interim": 3,
    }
)
MAX_BYTES = 8192
OK = b"HTTP/1.1 200 OK\r\n"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(LIMITS) as started:
        yield started


async def fetch(
    fetcher: Fetcher, url: str, policy: NetworkPolicy = LOOPBACK, max_bytes: int = MAX_BYTES
) -> tuple[AcquisitionRecord, bytes]:
    """Fetch into a fresh unnamed file; the record and what is in the file. Raises what the fetch ended with."""
    with tempfile.TemporaryFile() as file:
        record = await fetcher.fetch(url, policy=policy, max_bytes=max_bytes, into=file.fileno())
        record.had()
        return record, file.read()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_whole_body_arrives_with_its_record(fetcher: Fetcher) -> None:
    """The bytes, their digest, the hop with its addresses, the claim of type, policy and layers."""
    async with origin({"/a.png?token=secret": answer("200 OK", {"Content-Type": "image/PNG; x=y"}, BODY)}) as served:
        record, body = await fetch(fetcher, served.url("/a.png?token=secret"))
        (hop,) = record.hops
        assert body == BODY
        assert (record.source, record.size_bytes, record.digest) == ("url", len(BODY), Digest.of(BODY))
        assert (hop.url, hop.status, hop.vetted) == (served.url("/a.png"), 200, ("127.0.0.1",))
        assert (hop.dialled, hop.tls) == ("127.0.0.1", None)
        assert record.media_type_claimed == "image/png"
        assert (record.policy, record.policy_digest) == (LOOPBACK.name, LOOPBACK.digest())
        assert record.layers == fetcher.layers
        assert {"no_new_privs", "rlimits"} < set(record.layers)
        head = served.requests[0].lower()
        assert b"accept-encoding: identity\r\n" in head
        for unwanted in (b"cookie", b"authorization", b"referer"):
            assert unwanted not in head


@pytest.mark.asyncio(loop_scope="module")
async def test_chunked_body_and_early_hints(fetcher: Fetcher) -> None:
    """Chunked framing without a length is whole when its last chunk came; 1xx answers before it are skipped."""
    hints = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3
    chunked = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with origin({"/": raw(hints + OK + chunked)}) as served:
        _, body = await fetch(fetcher, served.url("/"))
        assert body == b"hello"


@pytest.mark.asyncio(loop_scope="module")
async def test_redirects_are_followed_and_recorded(fetcher: Fetcher) -> None:
    """Up to three redirects; each hop is in the record, without its query."""
    scripts = {
        "/1": redirect("/2?a=b"),
        "/2?a=b": redirect("3"),
        "/3": redirect("/4"),
        "/4": answer("200 OK", {}, b"x"),
    }
    async with origin(scripts) as served:
        record, body = await fetch(fetcher, served.url("/1"))
        assert body == b"x"
        assert [(hop.url, hop.status) for hop in record.hops] == [
            (served.url("/1"), 302),
            (served.url("/2"), 302),
            (served.url("/3"), 302),
            (served.url("/4"), 200),
        ]


@pytest.mark.parametrize(
    ("script", "error", "rule"),
    [
        pytest.param(answer("404 Not Found"), FetchError, "http-status", id="not found"),
        pytest.param(answer("503 Busy"), FetchUnavailable, "http-status", id="server error"),
        pytest.param(answer("429 Slow"), FetchUnavailable, "http-status", id="too many requests"),
        pytest.param(answer("206 Partial Content", {}, b"x"), FetchError, "http-status", id="a part not asked for"),
        pytest.param(redirect("http://169.254.169.254/"), PolicyDenied, "address-denied", id="redirect to metadata"),
        pytest.param(redirect("http://127.0.0.2/"), PolicyDenied, "address-denied", id="redirect to a neighbour"),
        pytest.param(redirect("http://0x7f.1/"), PolicyDenied, "host-numeric-form", id="redirect to a hex form"),
        pytest.param(redirect("file:///etc/passwd"), PolicyDenied, "scheme", id="redirect to a file"),
        pytest.param(redirect("/"), PolicyDenied, "redirect-limit", id="redirect loop"),
        pytest.param(redirect(), PolicyDenied, "redirect-location-count", id="redirect to nowhere"),
        pytest.param(redirect("/a", "/b"), PolicyDenied, "redirect-location-count", id="redirect to two places"),
        pytest.param(
            raw(OK + b"Content-Length: 100\r\n\r\nshort"), FetchUnavailable, "body-truncated", id="truncated body"
        ),
        pytest.param(
            raw(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"), FetchUnavailable, "body-truncated", id="cut chunk"
        ),
        pytest.param(reset(OK + b"Content-Length: 100\r\n\r\nx"), FetchUnavailable, "connection-lost", id="reset"),
        pytest.param(raw(b""), FetchUnavailable, "connection-lost", id="no answer at all"),
        pytest.param(raw(b"SSH-2.0-x\r\n\r\n"), FetchError, "http-protocol", id="not HTTP"),
        pytest.param(
            raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), FetchError, "http-protocol", id="two lengths"
        ),
        pytest.param(raw(OK + b"Content-Length: -1\r\n\r\n"), FetchError, "http-protocol", id="negative length"),
        pytest.param(
            raw(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
            FetchError,
            "framing-ambiguous",
            id="length and chunks",
        ),
        pytest.param(
            answer("200 OK", {"Content-Encoding": "gzip"}, b"x"), FetchError, "content-encoding", id="compressed"
        ),
        pytest.param(
            answer("200 OK", {"Content-Length": "8193"}), FetchError, "body-over-limit", id="too much announced"
        ),
        pytest.param(raw(OK + b"\r\n" + b"x" * 8193), FetchError, "body-over-limit", id="too much without a length"),
        pytest.param(
            answer("200 OK", {f"X-{number}": "y" for number in range(33)}), FetchError, "header-count", id="headers"
        ),
        pytest.param(answer("200 OK", {"X": "y" * 4096}), FetchError, "header-bytes", id="large header"),
        pytest.param(answer("200 OK", {"X": "y" * 200_000}), FetchError, "header-bytes", id="giant header"),
        pytest.param(drip(OK + b"\r\n", b"x", 0.05), FetchUnavailable, "minimum-rate", id="dripping body"),
        pytest.param(drip(OK, b"X: y\r\n", 0.05), FetchUnavailable, "head-deadline", id="dripping headers"),
        pytest.param(drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.05), FetchError, "interim-count", id="1xx flood"),
        pytest.param(drip(OK + b"\r\nx", b"", 60), FetchUnavailable, "idle-timeout", id="silence"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_hostile_answer_ends_by_its_rule(
    fetcher: Fetcher, script: Script, error: type[EvidenceError], rule: str
) -> None:
    """Each hostile answer ends the fetch by the rule that is about it, and the child survives it."""
    pid = fetcher.pid
    async with origin({"/": script}) as served:
        with pytest.raises(EvidenceError) as ended:
            await fetch(fetcher, served.url("/"))
    assert (type(ended.value), ended.value.rule) == (error, rule), ended.value
    assert fetcher.pid == pid


@pytest.mark.asyncio(loop_scope="module")
async def test_a_longer_body_than_announced_is_cut(fetcher: Fetcher) -> None:
    """What the framing says is the body; the rest is never read as such."""
    async with origin({"/": raw(OK + b"Content-Length: 3\r\n\r\nabcdef")}) as served:
        _, body = await fetch(fetcher, served.url("/"))
        assert body == b"abc"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_denied_address_is_never_dialled(fetcher: Fetcher) -> None:
    """The public policy does not even connect to loopback, and a kept connection of another policy is not reused."""
    async with origin({"/": answer("200 OK", {}, b"x")}) as served:
        await fetch(fetcher, served.url("/"))
        before = served.connections
        policy = NetworkPolicy("other-unsafe-ports", ports=None)
        for denying in (PUBLIC_WEB, policy):
            with pytest.raises(PolicyDenied):
                await fetch(fetcher, served.url("/"), denying)
        assert served.connections == before


@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_listens(fetcher: Fetcher) -> None:
    """A refused connection may be tried again later."""
    async with origin({}) as served:
        url = served.url("/")
    with pytest.raises(FetchUnavailable, match=r"^connect:"):
        await fetch(fetcher, url)


@pytest.mark.asyncio(loop_scope="module")
async def test_many_at_once(fetcher: Fetcher) -> None:
    """Fetches run side by side in one child and do not mix their bytes."""
    scripts = {f"/{number}": answer("200 OK", {}, f"body {number}".encode()) for number in range(50)}
    async with origin(scripts) as served:
        results = await asyncio.gather(*(fetch(fetcher, served.url(path)) for path in scripts))
    assert [body for _, body in results] == [f"body {number}".encode() for number in range(50)]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_with_content_is_refused(fetcher: Fetcher) -> None:
    """The quarantine file must be empty, or the bytes before would be hashed too."""
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        with pytest.raises(InputError, match="quarantine-file"):
            await fetcher.fetch("http://127.0.0.1/", policy=LOOPBACK, max_bytes=1, into=file.fileno())


@pytest.mark.asyncio(loop_scope="module")
async def test_cancelling_the_caller_ends_the_fetch_in_the_child(fetcher: Fetcher) -> None:
    """The origin sees the connection end although its answer has not."""
    ended = asyncio.Event()
    started = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        started.set()
        try:
            await drip(OK + b"\r\n", b"x" * 64, 0.01)(writer)
        finally:
            ended.set()

    async with origin({"/": endless}) as served:
        task = asyncio.create_task(fetch(fetcher, served.url("/"), max_bytes=1 << 30))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(0.6):  # less than the deadline, which would end it too
            await ended.wait()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_killed_child_is_replaced() -> None:
    """The fetch that it held fails so that it may be tried again; the next one works in another child."""
    started = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        started.set()
        await asyncio.sleep(60)

    async with Fetcher(LIMITS) as fetcher, origin({"/": silent, "/ok": answer("200 OK", {}, b"x")}) as served:
        first = fetcher.pid
        assert first is not None
        task = asyncio.create_task(fetch(fetcher, served.url("/")))
        await started.wait()
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ChildFailed, match="fetcher-died"):
            await task
        assert (await fetch(fetcher, served.url("/ok")))[1] == b"x"
        assert fetcher.pid != first


@pytest.mark.asyncio(loop_scope="module")
async def test_tls_is_verified_and_recorded() -> None:
    """A certificate of a given anchor is taken for its own name only; without the anchor it is refused."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    wrong = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("media.example.com").configure_cert(wrong)
    scripts = {"/": answer("200 OK", {}, b"x"), "/down": redirect("http://127.0.0.1/")}
    anchors = authority.cert_pem.bytes().decode()
    async with (
        Fetcher(LIMITS, extra_anchors=anchors) as trusting,
        origin(scripts, context=context) as served,
        origin(scripts, context=wrong) as other,
    ):
        record, _ = await fetch(trusting, served.url("/"))
        (hop,) = record.hops
        assert hop.tls is not None
        assert hop.tls.version == "TLSv1.3"
        with pytest.raises(PolicyDenied, match="redirect-downgrade"):
            await fetch(trusting, served.url("/down"))
        with pytest.raises(FetchError, match="tls-certificate"):
            await fetch(trusting, other.url("/"))
        async with Fetcher(LIMITS) as strict:
            with pytest.raises(FetchError, match="tls-certificate"):
                await fetch(strict, served.url("/"))


def test_no_fetcher_survives_a_killed_parent() -> None:
    """SIGKILL of the process that uses the fetcher ends the fetcher."""
    program = (
        "import asyncio\nfrom intake.fetcher import Fetcher\n"
        "async def main():\n  async with Fetcher() as f:\n    print(f.pid, flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
    descriptor = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    poll = select.poll()
    poll.register(descriptor)
    assert poll.poll(10_000), "the fetcher is still alive"
    os.close(descriptor)


def _open_files(pid: int | None) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_cancelled_before_it_began_leaves_no_descriptor(fetcher: Fetcher) -> None:
    """An order and its cancellation that arrive together: the child closes the file, and never runs out of them."""
    closed = "http://127.0.0.1:9/"  # nobody listens there
    with tempfile.TemporaryFile() as file:

        async def fetch_once() -> AcquisitionRecord:
            return await fetcher.fetch(closed, policy=LOOPBACK, max_bytes=1, into=file.fileno())

        await fetch_once()
        before = _open_files(fetcher.worker_pid)
        for _ in range(20):
            tasks = [asyncio.create_task(fetch_once()) for _ in range(8)]
            for _ in range(3):  # steps of the loop, until the orders are sent
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await fetch_once()  # packets are read in order, so the child has read all before
        assert _open_files(fetcher.worker_pid) <= before + 1
