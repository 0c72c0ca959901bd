"""Packets between parent and fetcher: bounded, of known shapes, with the descriptors they came with."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import Digest
from contracts.errors import ChildFailed
from contracts.records import Hop, TlsFacts
from intake.frames import (
    PACKET_BYTES,
    Cancel,
    Done,
    Failed,
    Fetch,
    HopFrame,
    PacketChannel,
    Ready,
    read_order,
    read_report,
)

HOP = Hop(
    "http://a.example.com/",
    Digest("0" * 64),
    200,
    ("1.2.3.4",),
    "1.2.3.4",
    TlsFacts("TLSv1.3", "AES", Digest("1" * 64)),
    (("etag", "x"),),
    "chunked",
    0.5,
    ("1.2.3.4", "1.2.3.5"),
    0.1,
    0.2,
    0.3,
)
DONE = {
    "op": "done",
    "id": 1,
    "size_bytes": 2,
    "digest": "sha256:x",
    "media_type": None,
    "hops": [msgspec.to_builtins(HopFrame.of(HOP))],
}


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connected pair of packet sockets."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        yield one, other


async def test_packets_cross_with_their_descriptors(ends: tuple[socket.socket, socket.socket]) -> None:
    """Order is kept, packets stay whole, and a descriptor belongs to its packet."""
    one, other = PacketChannel(ends[0]), PacketChannel(ends[1])
    reader, writer = os.pipe()
    await one.send(Fetch(1, "http://a.example.com/", 0, 5), [writer])
    await one.send(Cancel(1))
    os.close(writer)
    packet, (received,) = await other.receive()
    assert read_order(packet) == Fetch(1, "http://a.example.com/", 0, 5)
    os.write(received, b"through")
    os.close(received)
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert read_order((await other.receive())[0]) == Cancel(1)


async def test_a_full_channel_waits(ends: tuple[socket.socket, socket.socket]) -> None:
    """More packets than the kernel holds are all delivered, without blocking the loop."""
    one, other = PacketChannel(ends[0]), PacketChannel(ends[1])
    sending = asyncio.gather(*(one.send(Cancel(number)) for number in range(3000)))
    received = [read_order((await other.receive())[0]) for _ in range(3000)]
    await sending
    assert received == [Cancel(number) for number in range(3000)]


async def test_the_end_is_an_empty_packet(ends: tuple[socket.socket, socket.socket]) -> None:
    """A peer that is gone reads as b""."""
    PacketChannel(ends[0]).close()
    assert await PacketChannel(ends[1]).receive() == (b"", [])


async def test_an_oversize_packet_is_a_broken_protocol(ends: tuple[socket.socket, socket.socket]) -> None:
    """It is neither sent nor taken."""
    with pytest.raises(ChildFailed, match="fetcher-protocol"):
        await PacketChannel(ends[0]).send(Ready(["x" * PACKET_BYTES]))
    ends[0].send(b" " * (PACKET_BYTES + 1))
    with pytest.raises(ChildFailed, match="fetcher-protocol"):
        await PacketChannel(ends[1]).receive()


async def test_too_many_descriptors_are_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    """Two descriptors where one is allowed: a broken protocol, and none is kept open."""
    reader, writer = os.pipe()
    socket.send_fds(ends[0], [b"{}"], [writer, writer])
    os.close(writer)
    with pytest.raises(ChildFailed, match="fetcher-protocol"):
        await PacketChannel(ends[1]).receive()
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_report_is_read() -> None:
    """The shape of a finished fetch."""
    report = read_report(msgspec.json.encode(DONE))
    assert isinstance(report, Done)
    assert [hop.to_hop() for hop in report.hops] == [HOP]


@pytest.mark.parametrize(
    "change",
    [
        {"op": "fetch"},
        {"op": "nothing"},
        {"id": -1},
        {"id": "1"},
        {"size_bytes": 1 << 60},
        {"digest": "x" * 300},
        {"extra": 1},
        {"hops": []},
        {"hops": [{**DONE["hops"][0], "status": 1}]},  # type: ignore[index]
        {"hops": DONE["hops"] * 40},  # type: ignore[operator]
    ],
    ids=str,
)
def test_a_report_of_no_known_shape_is_a_broken_protocol(change: dict[str, object]) -> None:
    """Unknown kinds and fields, wrong types and values out of bounds are refused."""
    with pytest.raises(ChildFailed, match="fetcher-protocol"):
        read_report(msgspec.json.encode(DONE | change))


@pytest.mark.parametrize("rule", ["", "Total", "a b", "a\n", "-a", "a" * 65])
def test_a_rule_is_a_name(rule: str) -> None:
    """What a child calls a rule must look like one."""
    failed = {"op": "failed", "id": 1, "error": "FetchError", "rule": "a-rule", "reason": "", "hops": []}
    assert isinstance(read_report(msgspec.json.encode(failed)), Failed)
    with pytest.raises(ChildFailed):
        read_report(msgspec.json.encode(failed | {"rule": rule}))


@given(st.binary(max_size=200) | st.just(b"[" * 30_000))
def test_any_bytes_are_read_or_refused(packet: bytes) -> None:
    """Never another error than ours."""
    with pytest.raises(ChildFailed):
        read_report(packet)
