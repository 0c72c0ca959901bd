"""A hostile origin with a hand on every byte of a connection, its beginning and its end.

tests/simulators/origin.py answers once per connection; here a connection has a turn of its own, with as many answers,
as much silence and whichever end the turn wants.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

Turn = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class HostileOrigin:
    """Where it listens; `connections` counts what was accepted, before any handshake of TLS."""

    url: str
    connections: int = 0


def say(*answers: bytes, then_wait: bool = False) -> Turn:
    """An answer for each request on the connection; then its end, or silence until the client goes."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(each)
            await writer.drain()
        if then_wait:
            await reader.read()

    return turn


def pour(start: bytes, piece: bytes, every_s: float = 0.0) -> Turn:
    """`start`, then `piece` without end, as fast as it is read or each `every_s` seconds."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return turn


def reset(start: bytes = b"") -> Turn:
    """`start` after the request, then a TCP reset; without a start at the first byte, be it of a handshake."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if start:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(start)
            await writer.drain()
        else:
            await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return turn


def hang_up_without_notice(start: bytes) -> Turn:
    """`start`, then FIN without TLS's close_notify: how a cut connection looks to the client."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        await writer.drain()
        writer.transport.abort()

    return turn


def shake_hands(context: ssl.SSLContext) -> Turn:
    """A TLS handshake by hand, so that the alert that ends it is sent: asyncio's own server only hangs up."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_side=True)
        try:
            while data := await reader.read(1 << 16):
                incoming.write(data)
                with contextlib.suppress(ssl.SSLWantReadError):
                    session.do_handshake()
                writer.write(outgoing.read())
        finally:
            writer.write(outgoing.read())

    return turn


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Nothing, for as long as the client waits: without TLS of its own, a handshake that never answers."""
    await reader.read(-1)


@contextlib.asynccontextmanager
async def hostile(*turns: Turn, context: ssl.SSLContext | None = None) -> AsyncIterator[HostileOrigin]:
    """Serve on a free port of loopback: the first connection has the first turn, and so on, later ones the last."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = turns[min(served.connections, len(turns) - 1)]
        served.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await turn(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    served = HostileOrigin(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
