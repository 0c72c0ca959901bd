"""One connection to a worker: hands bytes to the exchange on it as they arrive.

There is no queue between the socket and the exchange: what a read brought is judged before the next read, so a
stream's memory is what the exchange keeps, and no task is woken for a read.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from typing import Protocol, cast

import certifi


class Receiver(Protocol):
    """Who takes what a connection brings."""

    def received(self, data: bytes) -> None:
        """Bytes came."""
        ...

    def closed(self) -> None:
        """The connection is over; no bytes come any more."""
        ...


class Connection(asyncio.Protocol):
    """A connection. `is_usable` tells whether a next request may be sent on it."""

    _transport: asyncio.Transport  # from connection_made on, before which nobody has the connection

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._lost = asyncio.get_running_loop().create_future()
        self.is_usable = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_usable = True

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. Bytes that nobody asked for make the connection useless."""
        if self._receiver is None:
            self.abort()
        else:
            self._receiver.received(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol. Half-open connections are not kept."""
        self._over()
        return False

    def connection_lost(self, _: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._over()
        if not self._lost.done():
            self._lost.set_result(None)

    def send(self, data: bytes, receiver: Receiver) -> None:
        """Send a request; `receiver` gets what comes back until `release`."""
        self._receiver = receiver
        self._transport.write(data)

    def release(self, *, reusable: bool) -> None:
        """The exchange is over: keep the connection for the next one, or close it."""
        self._receiver = None
        self.idle_since = asyncio.get_running_loop().time()
        if not reusable:
            self.abort()

    def abort(self) -> None:
        """Close at once; what was not sent yet is dropped."""
        self.is_usable = False
        self._transport.abort()

    async def aclose(self) -> None:
        """Close and wait until it is."""
        self.abort()
        await self._lost

    def _over(self) -> None:
        self.is_usable = False
        if self._receiver is not None:
            self._receiver.closed()


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certifi.where())


async def connect(host: str, port: int, *, tls: bool) -> Connection:
    """A new connection. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, host, port, ssl=_trust() if tls else None)
    return connection
