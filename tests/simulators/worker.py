"""A scripted worker for faults that the real engine cannot be made to show. It speaks raw HTTP/1.1.

    async with ScriptedWorker([answer("hello")]) as worker:
        got = await client_of(worker.url).submit(...)

Each connection's each request takes the next reply; the last one repeats. A reply ends (`End.WHOLE`), is cut in the
middle of its chunked body (`End.CUT`) or stalls until the reader leaves (`End.STALL`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass
from enum import Enum

from contracts.digest import wire_json

ROUTE = "simulated"
EVENT_STREAM = (("content-type", "text/event-stream"), ("x-request-id", "{request_id}"))
DONE = b"data: [DONE]\n\n"


class End(Enum):
    """What happens after the last piece."""

    WHOLE = "whole"
    CUT = "cut"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `{request_id}` in a header's value is what the request said; `pieces` go out one by one, where it is
    `held` from when the worker's `go` is set."""

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = EVENT_STREAM
    end: End = End.WHOLE
    held: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    head: str
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header, or the empty string."""
        found = re.search(rf"(?im)^{re.escape(name)}: (.*?)\r?$", self.head)
        return found.group(1) if found else ""


def chunk(text: str | None, *, finish: str | None = None, tokens: int = 1) -> bytes:
    """One event of profile 0.9.5; with `finish` also the usage of `tokens` completion tokens."""
    usage = {"completion_tokens": tokens, "prompt_tokens": 3, "total_tokens": tokens + 3}
    value = {
        "id": "1",
        "choices": [
            {
                "finish_reason": finish,
                "index": 0,
                "delta": {"content": text, "role": "assistant", "tool_calls": None},
                "logprobs": None,
            }
        ],
        "created": 1_700_000_000,
        "model": ROUTE,
        "system_fingerprint": "local",
        "object": "chat.completion.chunk",
        "usage": usage if finish else None,
    }
    return b"data: " + wire_json(value) + b"\n\n"


def answer(text: str) -> Reply:
    """A whole, right answer."""
    return Reply((chunk(text), chunk("", finish="stop", tokens=2), DONE))


class ScriptedWorker:
    """The server. `received` holds what came; `asked` is set with the first request, `left` when a reader left a
    stalled reply."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = replies
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.received: list[Received] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.go = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> ScriptedWorker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def has_been_asked(self, times: int) -> None:
        """Wait until it has received so many requests."""
        while len(self.received) < times:
            self.asked.clear()
            await self.asked.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)content-length: (\d+)", head)
        body = await reader.readexactly(int(length.group(1))) if length else b""
        received = Received(head, body)
        reply = self._replies[min(len(self.received), len(self._replies) - 1)]
        self.received.append(received)
        self.asked.set()
        if reply.held:
            await self.go.wait()
        request_id = received.header("x-request-id")
        lines = [f"HTTP/1.1 {reply.status} Simulated", "transfer-encoding: chunked"]
        lines += [f"{name}: {value.replace('{request_id}', request_id)}" for name, value in reply.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in reply.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.end is End.STALL:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            self.left.set()
        if reply.end is End.WHOLE:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.end is End.WHOLE
