"""An answer as server-sent events (WHATWG HTML 9.2), framed as the engine's own server frames it.

Chunks are pulled one by one, each in a thread of the given executor, so a slow reader holds back only its own
answer, and nothing is pulled after the reader has gone: the iterator is dropped, which cancels in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from starlette.types import Receive, Scope, Send

from contracts.digest import wire_json
from serving.embedded.engine import Engine

KEEP_ALIVE_S = 10.0
_KEEP_ALIVE = b":\n\n"
_DONE = b"data: [DONE]\n\n"


class EventStream:
    """An ASGI response. Ends with `[DONE]` after a finish or an error text; without either it just ends, as the
    engine's own server does when the sequence is lost."""

    def __init__(self, engine: Engine, chunks: Iterator[Any], executor: Executor) -> None:
        self._engine = engine
        self._chunks = chunks
        self._executor = executor

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await self._send_events(gone, send)
        except OSError:
            return  # the reader left while a piece was on its way
        finally:
            del self._chunks
            gone.cancel()

    async def _send_events(self, gone: asyncio.Future[None], send: Send) -> None:
        finished = False
        while not finished:
            pull = asyncio.get_running_loop().run_in_executor(self._executor, _next, self._chunks)
            pull.add_done_callback(_retrieve)
            while not pull.done():
                await asyncio.wait({pull, gone}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return
                if not pull.done():
                    await _send_piece(send, _KEEP_ALIVE)
            error = pull.exception()
            if isinstance(error, Exception):
                await _send_piece(send, _text_event(self._engine.said(error)))
                break
            chunk = pull.result()
            if chunk is None:
                await send({"type": "http.response.body"})
                return
            await _send_piece(send, b"data: " + wire_json(self._engine.chunk_json(chunk)) + b"\n\n")
            finished = any(choice.finish_reason for choice in chunk.choices)
        await _send_piece(send, _DONE)
        await send({"type": "http.response.body"})


def _text_event(text: str) -> bytes:
    """One event of bare text: how the engine's server tells an error once the status is out."""
    lines = text.splitlines() or ["the engine failed without a message"]
    return "".join(f"data: {line}\n" for line in lines).encode() + b"\n"


def _next(chunks: Iterator[Any]) -> Any:
    """The next chunk, or None at the end: StopIteration cannot leave a future."""
    return next(chunks, None)


async def _send_piece(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _retrieve(pull: asyncio.Future[Any]) -> None:
    """Take an abandoned pull's error, which otherwise would be logged with whatever text it holds."""
    if not pull.cancelled():
        pull.exception()
