"""A connection's bytes: an asyncio protocol that holds little, and knows a true end from a cut one."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from contracts.errors import FetchUnavailable

_LOST = "the connection was reset or cut"
_HELD_BYTES = 256 * 1024  # one read of asyncio's; more waits in the kernel, so a fast server fills no memory
_BUFFER = memoryview(bytearray(_HELD_BYTES))
"""Where every connection reads into: what a read brought is taken before the loop reads again, so that memory does not
grow with the number of connections."""


class Wire(asyncio.BufferedProtocol):
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
        self._pouring: _Pouring | None = None

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
                raise FetchUnavailable("connection-lost", _LOST)
            try:
                async with asyncio.timeout(idle_s):
                    await self._wait()
            except TimeoutError as error:
                raise FetchUnavailable("idle-timeout", f"no byte came within {idle_s:g} s") from error
        return self._taken()

    async def pour(self, feed: Callable[[memoryview], bool], idle_s: float) -> bool:
        """Give what comes to `feed`, at once and without a copy, until it says that it has all; False at the end.

        Raises what `feed` raises, and FetchUnavailable as `read` does.
        """
        if self._chunks and feed(memoryview(self._taken())):
            return True
        try:
            async with asyncio.timeout(idle_s) as bound:
                self._pouring = pouring = _Pouring(feed, bound, idle_s)
                if self._is_ended or self._is_lost:
                    self._wake()
                return await pouring.over
        except TimeoutError as error:
            raise FetchUnavailable("idle-timeout", f"no byte came within {idle_s:g} s") from error
        finally:
            self._pouring = None

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (TCP and TLS transports are)
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if self._pouring is not None and not self._pouring.over.done():
            self._pouring.feed(_BUFFER[:nbytes])
            return
        self._chunks.append(bytes(_BUFFER[:nbytes]))
        self._held += nbytes
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

    def _taken(self) -> bytes:
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._held > _HELD_BYTES and self._transport is not None:
            self._transport.resume_reading()
        self._held = 0
        return data

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._pouring is not None:
            self._pouring.end(is_lost=not self._is_ended)
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


class _Pouring:
    """A body on its way to who takes it: no task is woken for a read. `over` tells whether the taker has all."""

    def __init__(self, feed: Callable[[memoryview], bool], bound: asyncio.Timeout, idle_s: float) -> None:
        self._feed = feed
        self._bound = bound
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[bool] = self._loop.create_future()

    def feed(self, data: memoryview) -> None:
        """Bytes came. Nothing in it raises."""
        try:
            if self._feed(data):
                self.over.set_result(True)
            else:
                self._bound.reschedule(self._loop.time() + self._idle_s)
        except Exception as error:  # who waits has to see it, also a defect of ours
            self.over.set_exception(error)

    def end(self, *, is_lost: bool) -> None:
        """No bytes come any more."""
        if self.over.done():
            return
        if is_lost:
            self.over.set_exception(FetchUnavailable("connection-lost", _LOST))
        else:
            self.over.set_result(False)
