"""A child for the tests that speaks the fetcher's protocol and breaks it as the URL's path says."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import msgspec

from contracts.digest import Digest
from contracts.records import Hop
from intake.frames import Configure, Done, Fetch, Frame, HopFrame, Ready, read_order


def main(channel: socket.socket, arguments: list[str]) -> None:
    """Answer every order with the lie that its path names."""
    assert not arguments
    configuration = read_order(channel.recv(1 << 16))
    assert isinstance(configuration, Configure)
    channel.sendall(msgspec.json.encode(Ready(["none"])))
    while packet := _receive(channel):
        order = read_order(packet[0])
        if isinstance(order, Fetch):
            with suppress(OSError):
                _lie(channel, order, packet[1])


def _receive(channel: socket.socket) -> tuple[bytes, int] | None:
    packet, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1)
    return (packet, descriptors[0] if descriptors else -1) if packet else None


def _lie(channel: socket.socket, order: Fetch, into: int) -> None:
    body = b"what was fetched"
    os.pwrite(into, body, 0)
    hop = HopFrame.of(Hop("http://a.example.com/", Digest.of(body), 200, ("93.184.216.34",), "93.184.216.34"))
    done = Done(order.id, len(body), str(Digest.of(body)), None, [hop])
    lies: dict[str, Frame | bytes] = {
        "truth": done,
        "digest": msgspec.structs.replace(done, digest=str(Digest.of(b"other"))),
        "size": msgspec.structs.replace(done, size_bytes=3),
        "unordered": msgspec.structs.replace(done, id=order.id + 1000),
        "ready": Ready(["again"]),
        "garbage": b"\x00\xff",
        "oversize": b" " * (1 << 16) + b"{}",
        "class": msgspec.json.encode(
            {"op": "failed", "id": order.id, "error": "OSError", "rule": "a", "reason": "", "hops": []}
        ),
    }
    name = order.url.rpartition("/")[2]
    if name == "descriptor":
        socket.send_fds(channel, [msgspec.json.encode(done)], [into])
    elif name != "silence":
        lie = lies[name]
        channel.sendall(lie if isinstance(lie, bytes) else msgspec.json.encode(lie))
