"""A loopback web server for the demo: honest files, and paths that misbehave the way real origins do."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

_DRIP_SECONDS = 0.1
_REQUEST_BYTES = 8192
_READ_SECONDS = 5.0


class Origin:
    """Serves `files` by name; `redirects` maps a name to where it sends the client; `drips` come a byte at a time."""

    def __init__(self, files: Mapping[str, bytes], redirects: Mapping[str, str], drips: frozenset[str]) -> None:
        self._files = files
        self._redirects = redirects
        self._drips = drips
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Listen on a free loopback port and yield it."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_REQUEST_BYTES)
        try:
            port: int = server.sockets[0].getsockname()[1]
            yield port
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_READ_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head.split(b" ", 2)[1].decode("latin-1").lstrip("/"), writer)
        finally:
            writer.close()

    async def _answer(self, name: str, writer: asyncio.StreamWriter) -> None:
        if name in self._redirects:
            _write_head(writer, "302 Found", {"Location": self._redirects[name], "Content-Length": "0"})
        elif name in self._files:
            body = self._files[name]
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            _write_head(writer, "200 OK", {"Content-Type": kind, "Content-Length": str(len(body))})
            await _write_body(writer, body, dripping=name in self._drips)
        else:
            _write_head(writer, "404 Not Found", {"Content-Length": "0"})
        await writer.drain()


def _write_head(writer: asyncio.StreamWriter, status: str, headers: Mapping[str, str]) -> None:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def _write_body(writer: asyncio.StreamWriter, body: bytes, *, dripping: bool) -> None:
    if not dripping:
        writer.write(body)
        return
    for byte in body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(_DRIP_SECONDS)
