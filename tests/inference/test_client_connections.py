"""The client on the wire below HTTP's semantics: framings, reuse of connections, and how one ends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from contracts.errors import InputError, WorkerUnavailable
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import profile
from contracts.question import Question, TextPart
from contracts.request import build_request
from inference.client import Submission, WorkerClient
from tests.simulators.worker import ROUTE, answer

_PROFILE = profile("0.9.5")
_LIMITS = Limits()
_STREAM = b"".join(answer("hi").pieces)
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: the-id\r\n"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(_STREAM) + _STREAM + b"\r\n"


class _RawWorker:
    """Answers every request with the same bytes; `connections` counts."""

    def __init__(self, reply: bytes, *, closes: bool) -> None:
        self.reply, self.closes = reply, closes
        self.connections = 0
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(self.reply)
                await writer.drain()
                if self.closes:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.gone.set()


@asynccontextmanager
async def _raw(reply: bytes, *, closes: bool = False) -> AsyncIterator[tuple[_RawWorker, str]]:
    worker = _RawWorker(reply, closes=closes)
    async with await asyncio.start_server(worker.serve, "127.0.0.1", 0) as server:
        yield worker, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _client(url: str, version: str = "0.9.5") -> WorkerClient:
    return WorkerClient(url, profile=profile(version), route=ROUTE, limits=_LIMITS.changed({"idle_gap_s": 2.0}))


async def _ask(client: WorkerClient) -> Submission:
    request = build_request(
        Question((TextPart("hello"),), max_output_tokens=8),
        profile=_PROFILE,
        route=ROUTE,
        staged_url=lambda artifact: artifact.staged_name,
        limits=_LIMITS,
    )
    async with asyncio.timeout(20):
        return await client.submit(request, request_id="the-id")


@pytest.mark.parametrize(("version", "connections"), [("0.8.2", 2), ("0.8.17", 1)])
async def test_an_answer_that_no_echo_ties_to_its_request_has_its_own_connection(
    version: str, connections: int
) -> None:
    """0.8.2 does not say whose an answer is, so none is read from a connection on which another was."""
    async with _raw(_CHUNKED + b"0\r\n\r\n") as (worker, url), _client(url, version) as client:
        outcomes = [(await _ask(client)).outcome for _ in range(2)]
    assert outcomes == [Outcome.COMPLETE] * 2
    assert worker.connections == connections


@pytest.mark.parametrize(
    ("reply", "closes", "connections"),
    [
        (_CHUNKED + b"0\r\n\r\n", False, 1),
        (_OK + b"content-length: %d\r\n\r\n" % len(_STREAM) + _STREAM, False, 1),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + _CHUNKED + b"0\r\nx: y\r\n\r\n", False, 1),
        (_OK + b"\r\n" + _STREAM, True, 2),
        (_CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1) + b"0\r\n\r\n", False, 2),
        (_CHUNKED + b"0\r\n\r\nHTTP/1.1 200", False, 2),
    ],
    ids=["chunked", "sized", "interim and trailer", "until the end", "close", "more than asked for"],
)
async def test_every_framing_is_read_and_connections_are_used_again_where_they_may(
    reply: bytes, closes: bool, connections: int
) -> None:
    """Two requests, both complete; a second connection only where the first one cannot go on."""
    async with _raw(reply, closes=closes) as (worker, url), _client(url) as client:
        first, second = await _ask(client), await _ask(client)
    assert (first.outcome, second.outcome) == (Outcome.COMPLETE, Outcome.COMPLETE)
    assert first.stream == second.stream == _STREAM
    assert worker.connections == connections


@pytest.mark.parametrize(
    ("reply", "outcome", "rule"),
    [
        (b"", Outcome.INCOMPLETE, "transport-cut"),
        (b"HTTP/1.1 200 OK\r\n", Outcome.INCOMPLETE, "transport-cut"),
        (b"SSH-2.0-x\r\n\r\n", Outcome.PROTOCOL_VIOLATION, "http-framing"),
        (_CHUNKED, Outcome.INCOMPLETE, "transport-cut"),
        (_CHUNKED + b"nonsense\r\n", Outcome.INCOMPLETE, "transport-cut"),
        (_OK + b"transfer-encoding: chunked\r\n\r\nnonsense\r\n", Outcome.PROTOCOL_VIOLATION, "http-framing"),
        (_OK + b"content-length: 9999\r\n\r\n" + _STREAM, Outcome.INCOMPLETE, "transport-cut"),
        (
            _OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            Outcome.PROTOCOL_VIOLATION,
            "framing-ambiguous",
        ),
        (b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n", Outcome.ENGINE_ERROR, "http-status"),
    ],
    ids=[
        "nothing",
        "half a head",
        "another protocol",
        "no last chunk",
        "a chunk of nonsense",
        "nonsense at once",
        "less than said",
        "two framings",
        "an error badly framed",
    ],
)
async def test_broken_framing_is_never_an_answer(reply: bytes, outcome: Outcome, rule: str) -> None:
    """Even where the stream inside is whole: what HTTP does not say is whole is not."""
    async with _raw(reply, closes=True) as (_, url), _client(url) as client:
        got = await _ask(client)
    assert (got.outcome, got.rule, got.text) == (outcome, rule, None)


async def test_a_connection_that_the_worker_closed_is_not_used_again() -> None:
    """The client sees the end before it sends the next request."""
    async with _raw(_CHUNKED + b"0\r\n\r\n", closes=True) as (worker, url), _client(url) as client:
        await _ask(client)
        await worker.gone.wait()
        await asyncio.sleep(0)  # one turn, in which the loop reads what is there
        assert (await _ask(client)).outcome is Outcome.COMPLETE
    assert worker.connections == 2


async def test_a_worker_without_a_trusted_certificate_is_unavailable() -> None:
    """TLS is verified against the shipped anchors, and a failure is no answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WorkerUnavailable, match="worker-connect"):
            await _ask(_client(url))


@pytest.mark.parametrize("url", ["", "ftp://h", "http://", "http://h:99999", "http://h/?a", "file:///etc/passwd"])
def test_a_url_that_names_no_worker_is_refused(url: str) -> None:
    """At construction, before anything is sent."""
    with pytest.raises(InputError, match="worker-url"):
        _client(url)
