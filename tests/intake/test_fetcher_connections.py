"""Connections: many at once in one child, kept for the same place only, and never trusted to be quiet."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from contracts.network_policy import NetworkPolicy
from contracts.records import AcquisitionRecord
from intake.fetcher import Fetcher
from tests.intake.hostile_origin import hostile, say

LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
OK = b"HTTP/1.1 200 OK\r\n"
MANY = 200


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher() as started:
        yield started


def one(letter: bytes) -> bytes:
    """A whole answer of one byte."""
    return OK + b"Content-Length: 1\r\n\r\n" + letter


async def fetch(fetcher: Fetcher, url: str, policy: NetworkPolicy = LOOPBACK) -> tuple[AcquisitionRecord, bytes]:
    """The record, and what is in the file."""
    with tempfile.TemporaryFile() as file:
        record = await fetcher.fetch(url, policy=policy, max_bytes=100, into=file.fileno())
        return record, file.read()


@pytest.mark.asyncio(loop_scope="module")
async def test_hundreds_of_fetches_wait_side_by_side(fetcher: Fetcher) -> None:
    """An origin that answers nobody before all have asked: one wave or none."""
    asked, everybody = 0, asyncio.Event()

    async def together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        number = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1][1:]
        asked += 1
        if asked == MANY:
            everybody.set()
        await everybody.wait()
        writer.write(OK + b"\r\n" + number)

    async with hostile(together) as served:
        results = await asyncio.gather(*(fetch(fetcher, f"{served.url}{number}") for number in range(MANY)))
    assert [body for _, body in results] == [str(number).encode() for number in range(MANY)]
    assert {record.failure for record, _ in results} == {None}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_connection_is_kept_for_its_place_and_policy(fetcher: Fetcher) -> None:
    """The second fetch dials nobody, and its record has the addresses of the connection; another policy dials anew."""
    async with hostile(say(one(b"a"), one(b"b"), then_wait=True), say(one(b"c"), then_wait=True)) as served:
        first, _ = await fetch(fetcher, served.url)
        second, body = await fetch(fetcher, served.url)
        assert (body, served.connections) == (b"b", 1)
        assert second.hops[0].vetted == first.hops[0].vetted == ("127.0.0.1",)
        assert (second.hops[0].dialled, second.hops[0].connected_s) == ("127.0.0.1", None)
        assert first.hops[0].connected_s is not None
        _, body = await fetch(fetcher, served.url, replace(LOOPBACK, name="other-unsafe"))
        assert (body, served.connections) == (b"c", 2)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_redirect_keeps_its_connection(fetcher: Fetcher) -> None:
    """An empty answer leaves nothing that could be taken for the next one."""
    moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /b\r\n\r\n"
    async with hostile(say(moved, one(b"x"), then_wait=True)) as served:
        record, body = await fetch(fetcher, served.url)
        assert (body, served.connections, len(record.hops)) == (b"x", 1, 2)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(one(b"a") + one(b"!"), id="an answer behind the answer"),
        pytest.param(one(b"a") + b"\r\n", id="a line behind the answer"),
        pytest.param(OK + b"Content-Length: 1\r\nConnection: close\r\n\r\na", id="the server says close"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", id="HTTP/1.0"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_step_8_a_connection_with_more_than_its_answer_is_not_kept(fetcher: Fetcher, first: bytes) -> None:
    """Bytes that nobody asked for are nobody's answer."""
    async with hostile(say(first, then_wait=True), say(one(b"b"), then_wait=True)) as served:
        assert (await fetch(fetcher, served.url))[1] == b"a"
        assert (await fetch(fetcher, served.url))[1] == b"b"
        assert served.connections == 2


@pytest.mark.asyncio(loop_scope="module")
async def test_a_kept_connection_that_the_server_closes_is_no_failure(fetcher: Fetcher) -> None:
    """The request is sent once more on a new connection; one that was new is not tried twice."""

    async def close_at_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await say(one(b"a"))(reader, writer)
        await reader.readuntil(b"\r\n\r\n")

    async with hostile(close_at_the_second, say(one(b"b")), say(b"")) as served:
        assert (await fetch(fetcher, served.url))[1] == b"a"
        record, body = await fetch(fetcher, served.url)
        assert (body, served.connections) == (b"b", 2)
        assert record.hops[0].connected_s is not None
        record, _ = await fetch(fetcher, served.url)
        assert record.failure is not None
        assert (record.failure.rule, served.connections) == ("connection-lost", 3)


async def test_step_6_nothing_of_ours_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the environment is asked, no cookie comes back, no redirect tells where it came from."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    heads: list[bytes] = []

    async def remember(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cookie = b"Set-Cookie: a=b\r\nContent-Length: 0\r\n"
        for each in (b"HTTP/1.1 302 Found\r\n" + cookie + b"Location: /b?c\r\n\r\n", one(b"x"), one(b"y")):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(each)
        await reader.read()

    async with Fetcher() as fetcher, hostile(remember) as served:
        assert (await fetch(fetcher, served.url))[1] == b"x"
        assert (await fetch(fetcher, served.url))[1] == b"y"
    for head, path in zip(heads, (b"/", b"/b?c", b"/"), strict=True):
        first, *lines, _, _ = head.split(b"\r\n")
        assert first == b"GET " + path + b" HTTP/1.1"
        sent = dict(line.split(b": ", 1) for line in lines)
        assert set(sent) == {b"Host", b"User-Agent", b"Accept", b"Accept-Encoding"}
        assert sent[b"Accept-Encoding"] == b"identity"
