"""A hostile HTTP origin: raw sockets, every answer written byte by byte as a test wants it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]

BODY = bytes(range(256)) * 16


def answer(status: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Script:
    """A whole answer with a right Content-Length unless `headers` says another."""
    return raw(_head(status, {"Content-Length": str(len(body))} | (headers or {})) + body)


def redirect(*locations: str) -> Script:
    """A 302 with these Location headers."""
    lines = "".join(f"Location: {location}\r\n" for location in locations)
    return raw(f"HTTP/1.1 302 Found\r\n{lines}Content-Length: 0\r\n\r\n".encode())


def raw(data: bytes) -> Script:
    """Exactly these bytes, then the end of the connection."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return write


def drip(start: bytes, piece: bytes, every_s: float) -> Script:
    """`start`, then `piece` again and again for as long as anybody reads."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return write


def reset(start: bytes) -> Script:
    """`start`, then a TCP reset."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return write


def _head(status: str, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


@dataclass
class Origin:
    """A listening origin. `requests` are the heads as received; `connections` counts what was accepted."""

    port: int
    scheme: str
    scripts: dict[str, Script]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """The URL of a path."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one scripted answer."""
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head)
            await self.scripts[head.split(b" ", 2)[1].decode()](writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def origin(
    scripts: dict[str, Script], *, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> AsyncIterator[Origin]:
    """Serve `scripts` by path on a free port; closed, with all its connections, at the end."""
    served = Origin(0, "http" if context is None else "https", scripts)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await served.serve(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(connected, host, 0, ssl=context)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
