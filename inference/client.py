"""The client of one worker slot: sends one request at a time and watches its answer, byte by byte.

Whatever a worker sends ends in a `Submission` with one outcome; only a worker that never took the request raises
(WorkerUnavailable). It speaks through an HTTP transport without redirects, cookies, proxies or environment.
Cancellation closes the connection, which cancels in the engine.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from contracts.chunk import Usage
from contracts.completion import Completion, CompletionStream, Cut
from contracts.digest import Digest
from contracts.engine_text import shown
from contracts.errors import InputError, StreamViolation, WorkerUnavailable
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import Profile
from contracts.request import ChatRequest
from inference.response_rules import check_headers, error_text, names_of

CHAT_PATH = "/v1/chat/completions"
_CONNECT_S = 5.0  # a worker is on this host or one hop away
_IDLE_CONNECTION_S = 2.0  # less than any server keeps one, so that a request does not meet a closing connection
_ERROR_BYTES = 4 << 10
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_NOT_ADMITTED = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Submission:
    """What came of one request.

    `stream` is the raw answer, `stream_digest` its digest (of no bytes where no stream began). `text` is there only
    where the stream was whole; what came before a failure is `partial_text`. `structured` is the answer as JSON where
    somebody checked it against a form. `http_request_id` is what the worker echoed, `status` its HTTP status, `defect`
    the engine's known defect that fits.
    """

    outcome: Outcome
    rule: str | None
    reason: str | None
    text: str | None
    partial_text: str | None
    reasoning: str | None
    usage: Usage | None
    finish_reason: str | None
    events: int
    stream: bytes
    stream_digest: Digest
    status: int | None
    http_request_id: str | None
    seconds: float
    defect: str | None = None
    structured: Any = None


class WorkerClient:
    """One slot of one worker. Not for two requests at once."""

    def __init__(self, base_url: str, *, profile: Profile, route: str, limits: Limits) -> None:
        self._url = httpx.URL(base_url.rstrip("/") + CHAT_PATH)
        self._profile = profile
        self._route = route
        self._limits = limits
        self._transport = httpx.AsyncHTTPTransport(
            verify=self._url.scheme == "https",  # without TLS its trust store would be loaded for nothing
            trust_env=False,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=_IDLE_CONNECTION_S),
        )

    async def aclose(self) -> None:
        """Close the connection."""
        await self._transport.aclose()

    async def __aenter__(self) -> WorkerClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def submit(self, request: ChatRequest, *, request_id: str) -> Submission:
        """Send `request` and validate its answer; `request_id` is 1 to 128 visible ASCII characters.

        Raises WorkerUnavailable when the worker did not take the request (no connection, 429, 503), InputError for a
        request id that cannot be a header.
        """
        if not _REQUEST_ID.fullmatch(request_id):
            raise InputError("request-id", "expected 1 to 128 visible ASCII characters")
        exchange = _Exchange(self._profile, self._route, self._limits, request, request_id)
        try:
            async with asyncio.timeout_at(exchange.deadline), self._sent(exchange) as response:
                return await exchange.received(response)
        except TimeoutError:
            return exchange.ended_early(Cut.TOTAL, f"not whole within {self._limits.total_s:g} s")
        except _Overdue as overdue:
            return exchange.ended_early(overdue.by, str(overdue))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise WorkerUnavailable("worker-connect", f"no connection to the worker: {type(error).__name__}") from None
        except httpx.RemoteProtocolError as error:
            return exchange.broken(error)
        except httpx.TransportError as error:
            return exchange.ended_early(Cut.TRANSPORT, f"the connection failed: {type(error).__name__}")

    @asynccontextmanager
    async def _sent(self, exchange: _Exchange) -> AsyncIterator[httpx.Response]:
        waits = {"connect": _CONNECT_S, "pool": _CONNECT_S, "write": self._limits.idle_gap_s, "read": None}
        sent = httpx.Request(
            "POST",
            self._url,
            content=exchange.request.body,
            headers={
                "content-type": "application/json",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
                "x-request-id": exchange.request_id,
            },
            extensions={"timeout": waits},
        )
        waiting = self._transport.handle_async_request(sent)
        response = await _within(self._limits.first_event_s, waiting, Cut.FIRST_EVENT)
        try:
            yield response
        finally:
            await response.aclose()


class _Overdue(Exception):
    """A wait was longer than its bound."""

    def __init__(self, by: Cut, seconds: float) -> None:
        super().__init__(f"nothing came for {seconds:.3g} s")
        self.by = by


async def _within(seconds: float, waiting: Any, by: Cut) -> Any:
    try:
        async with asyncio.timeout(seconds) as bound:
            return await waiting
    except TimeoutError:
        if bound.expired():
            raise _Overdue(by, seconds) from None
        raise


class _Exchange:
    """One request and what has come of it so far."""

    def __init__(self, profile: Profile, route: str, limits: Limits, request: ChatRequest, request_id: str) -> None:
        self.request = request
        self.request_id = request_id
        self._profile = profile
        self._limits = limits
        self._completion = CompletionStream(profile, route=route, max_tokens=request.max_tokens, limits=limits)
        self._raw = bytearray()
        self._status: int | None = None
        self._echo: str | None = None
        self._started = time.monotonic()
        self.deadline = asyncio.get_running_loop().time() + limits.total_s

    async def received(self, response: httpx.Response) -> Submission:
        """Judge the head before a byte of the stream, then the stream."""
        self._status = response.status_code
        self._echo = _echo_of(response)
        if response.status_code in _NOT_ADMITTED:
            raise WorkerUnavailable("worker-busy", f"the worker did not admit the request: {response.status_code}")
        if response.status_code != 200:
            said = error_text(await self._prefix(response), response.headers.get("content-type", ""))
            return self._refused(Outcome.ENGINE_ERROR, "http-status", f"status {response.status_code}: {said}")
        try:
            check_headers(response.headers, self._profile, self._limits, self.request_id)
        except StreamViolation as violation:
            return self._refused(Outcome.PROTOCOL_VIOLATION, violation.rule, violation.reason)
        await self._read_stream(response)
        return self._of(self._completion.finish())

    async def _read_stream(self, response: httpx.Response) -> None:
        pieces = response.stream.__aiter__()  # type: ignore[union-attr]  # of an async transport
        first_event_by = self._started + self._limits.first_event_s
        while not self._completion.has_failed:
            wait, by = self._limits.idle_gap_s, Cut.IDLE
            if self._completion.events == 0:
                left = max(first_event_by - time.monotonic(), 0)
                wait, by = min((wait, by), (left, Cut.FIRST_EVENT), key=lambda bound: bound[0])
            try:
                piece: bytes = await _within(wait, anext(pieces), by)
            except StopAsyncIteration:
                return
            self._raw += piece
            self._completion.feed(piece)

    async def _prefix(self, response: httpx.Response) -> bytes:
        """The beginning of an error's body: what came before its bound, its end, or the idle gap."""
        data = b""
        pieces = response.stream.__aiter__()  # type: ignore[union-attr]  # of an async transport
        try:
            while len(data) < _ERROR_BYTES:
                data += await _within(self._limits.idle_gap_s, anext(pieces), Cut.IDLE)
        except (StopAsyncIteration, _Overdue, httpx.TransportError):
            pass
        return data[:_ERROR_BYTES]

    def ended_early(self, by: Cut, reason: str) -> Submission:
        """The answer stopped before its end."""
        return self._of(self._completion.cut(reason, by))

    def broken(self, error: httpx.RemoteProtocolError) -> Submission:
        """HTTP itself failed: the worker closed too early, or what it sent is not HTTP within bounds."""
        text = str(error)
        if "closed" in text or "disconnected" in text:
            return self.ended_early(Cut.TRANSPORT, "the connection was closed before the answer's end")
        if self._raw:
            return self.ended_early(Cut.TRANSPORT, f"the answer's framing broke: {shown(text)}")
        return self._refused(Outcome.PROTOCOL_VIOLATION, "http-framing", shown(text))

    def _refused(self, outcome: Outcome, rule: str, reason: str) -> Submission:
        return Submission(
            outcome=outcome,
            rule=rule,
            reason=reason,
            text=None,
            partial_text=None,
            reasoning=None,
            usage=None,
            finish_reason=None,
            events=0,
            stream=b"",
            stream_digest=Digest.of(b""),
            status=self._status,
            http_request_id=self._echo,
            seconds=time.monotonic() - self._started,
        )

    def _of(self, completion: Completion) -> Submission:
        return Submission(
            outcome=completion.outcome,
            rule=completion.rule,
            reason=completion.reason,
            text=completion.text,
            partial_text=completion.partial_text,
            reasoning=completion.reasoning,
            usage=completion.usage,
            finish_reason=completion.finish_reason,
            events=completion.events,
            stream=bytes(self._raw),
            stream_digest=completion.stream_digest,
            status=self._status,
            http_request_id=self._echo,
            seconds=time.monotonic() - self._started,
            defect=completion.defect,
        )


def _echo_of(response: httpx.Response) -> str | None:
    given = names_of(response.headers, "x-request-id")
    return given[0] if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]) else None
