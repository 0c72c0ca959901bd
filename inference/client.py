"""The client of one worker slot: sends one request at a time and watches its answer, byte by byte.

Whatever a worker sends ends in a `Submission` with one outcome; only a worker that never took the request raises
(WorkerUnavailable). No redirects, cookies, proxies or environment. Cancellation closes the connection, which cancels
in the engine. Why the transport is our own: docs/adr/0005.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from contracts.completion import CompletionStream
from contracts.errors import InputError, WorkerUnavailable
from contracts.limits import Limits
from contracts.profile import Profile
from contracts.request import ChatRequest
from inference.connection import Connection, connect
from inference.exchange import Exchange
from inference.http_head import HeadExchange
from inference.response_rules import REQUEST_ID
from inference.submission import Submission as Submission

CHAT_PATH = "/v1/chat/completions"
_CONNECT_S = 5.0  # a worker is on this host or one hop away
_IDLE_CONNECTION_S = 2.0  # less than any server keeps one, so that a request does not meet a closing connection
_PORTS = {"http": 80, "https": 443}


class WorkerClient:
    """One slot of one worker. Not for two requests at once."""

    def __init__(self, base_url: str, *, profile: Profile, route: str, limits: Limits) -> None:
        """Raises InputError (`worker-url`) for a URL that is not http or https with a host."""
        self._tls, self._host, self._port, self._authority, self._target = _parts(base_url)
        self._profile = profile
        self._route = route
        self._limits = limits
        self._connection: Connection | None = None

    async def aclose(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.aclose()

    async def __aenter__(self) -> WorkerClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def submit(self, request: ChatRequest, *, request_id: str) -> Submission:
        """Send `request` and validate its answer; `request_id` is 1 to 128 visible ASCII characters.

        Raises WorkerUnavailable when the worker did not take the request (no connection, 429, 503), InputError for a
        request id that cannot be a header.
        """
        if not REQUEST_ID.fullmatch(request_id):
            raise InputError("request-id", "expected 1 to 128 visible ASCII characters")
        head = self._head(request, request_id)
        stream = CompletionStream(self._profile, route=self._route, max_tokens=request.max_tokens, limits=self._limits)
        exchange = Exchange(self._profile, self._limits, completion=stream, head=head, request_id=request_id)
        try:
            connection = await self._connected()
            try:
                if not exchange.outcome.done():
                    connection.send(head.request + request.body, exchange)
                return await exchange.outcome
            finally:
                connection.release(reusable=exchange.leaves_connection_usable)
        finally:
            exchange.abandon()

    def _head(self, request: ChatRequest, request_id: str) -> HeadExchange:
        headers = [
            ("host", self._authority),
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("accept-encoding", "identity"),
            ("x-request-id", request_id),
            ("content-length", str(len(request.body))),
        ]
        return HeadExchange(self._target, headers, max_bytes=self._limits.response_header_bytes)

    async def _connected(self) -> Connection:
        """The last exchange's connection, if it is young and alive, else a new one."""
        kept = self._connection
        if kept is not None and kept.is_usable:
            if asyncio.get_running_loop().time() - kept.idle_since < _IDLE_CONNECTION_S:
                return kept
            kept.abort()
        try:
            async with asyncio.timeout(_CONNECT_S):
                self._connection = await connect(self._host, self._port, tls=self._tls)
        except OSError as error:  # also TimeoutError
            raise WorkerUnavailable("worker-connect", f"no connection to the worker: {type(error).__name__}") from None
        return self._connection


def _parts(base_url: str) -> tuple[bool, str, int, str, str]:
    """Whether TLS, host, port, `Host` header, request target."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        host, port = None, 0
    if not host or parts.query or parts.fragment:
        raise InputError("worker-url", "expected http or https, a host and perhaps a port and a path")
    authority = parts.netloc.rpartition("@")[2]
    return parts.scheme == "https", host, port, authority, parts.path.rstrip("/") + CHAT_PATH
