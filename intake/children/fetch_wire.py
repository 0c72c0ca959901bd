"""A connection's bytes: an asyncio protocol that holds little, and knows a true end from a cut one."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque

from contracts.errors import FetchUnavailable

_HELD_BYTES = 256 * 1024  # one read of asyncio's; more waits in the kernel, so a fast server fills no memory


class Wire(asyncio.Protocol):
    """Bytes in both directions, for one reader at a time.

    An end counts only where the server said so: by FIN, under TLS by close_notify (RFC 9112 §9.8). Any other end, a
    reset above all, is a loss.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._is_ended = False
        self._is_lost = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came that nobody asked for, and the connection stands."""
        return not self._chunks and not self._is_ended and not self._is_lost

    def write(self, data: bytes) -> None:
        """Send `data`, which is small enough not to wait for."""
        if self._transport is not None:
            self._transport.write(data)

    async def read(self, idle_s: float) -> bytes:
        """What came; b"" at the end. Raises FetchUnavailable `idle-timeout` or `connection-lost`."""
        while not self._chunks:
            if self._is_ended:
                return b""
            if self._is_lost:
                raise FetchUnavailable("connection-lost", "the connection was reset or cut")
            try:
                async with asyncio.timeout(idle_s):
                    await self._wait()
            except TimeoutError as error:
                raise FetchUnavailable("idle-timeout", f"no byte came within {idle_s:g} s") from error
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._held > _HELD_BYTES and self._transport is not None:
            self._transport.resume_reading()
        self._held = 0
        return data

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (TCP and TLS transports are)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        if self._held > _HELD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if tls is None or _said_goodbye(tls):
            self._is_ended = True
        else:
            self._is_lost = True
        self._wake()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        self._wake()

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _said_goodbye(tls: ssl.SSLObject) -> bool:
    """Whether the peer's close_notify came: asyncio calls `eof_received` for a bare FIN too, once all was read."""
    try:
        return tls.read(1) == b""
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:  # more would have to come
        return False
