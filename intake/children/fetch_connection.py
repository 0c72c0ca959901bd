"""One HTTP/1.1 connection: a request out, a head and a body in, judged by h11, counted here byte by byte.

Step 8 of docs/threat-model.md. h11 keeps the state of the protocol and refuses what is malformed; what it tolerates
or hides of heads (interim answers, bare line feeds, folded headers) is refused or bounded here, of bodies in
intake/children/fetch_body.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import h11

from contracts.errors import FetchError, FetchUnavailable
from contracts.limits import Limits
from intake.children.fetch_body import Body, FramedBody, SizedBody, Take
from intake.children.fetch_hops import HopLog
from intake.children.fetch_wire import Wire

_ODD_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_START = b"HTTP/1."
_FOLDED = re.compile(rb"\n[ \t]")
_STEP_BYTES = 1 << 12  # a head is rarely longer
_TOO_LARGE = 431  # h11's hint for an element that is larger than it may buffer


@dataclass(frozen=True, slots=True)
class Head:
    """A response's status and headers as they came; `framing` is `content-length`, `chunked` or `until-close`."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    framing: str

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header, named in lower case."""
        return [value for key, value in self.headers if key.lower() == name]


class Connection:
    """Exchanges over one wire, one after the other. `log` is of the hop that made the connection; `exchanges`
    counts its requests."""

    def __init__(self, wire: Wire, limits: Limits, log: HopLog) -> None:
        self.log = log
        self.exchanges = 0
        self._wire = wire
        self._limits = limits
        self._h11 = h11.Connection(h11.CLIENT)  # of the present exchange
        self._received = bytearray()  # of the present heads
        self._unread = memoryview(b"")  # what came behind them
        self._body: Body | None = None

    @property
    def has_answered(self) -> bool:
        """Whether any byte of the present answer came."""
        return bool(self._received)

    async def ask(self, target: str, headers: Sequence[tuple[bytes, bytes]]) -> Head:
        """Send a GET and wait for the head, as long as `fetch_head_s`.

        Raises FetchError or FetchUnavailable by the rule that was broken.
        """
        self.exchanges += 1
        self._received.clear()
        self._unread, self._body = memoryview(b""), None
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=self._limits.fetch_header_bytes)
        request = self._h11.send(h11.Request(method="GET", target=target, headers=list(headers))) or b""
        self._wire.write(request + (self._h11.send(h11.EndOfMessage()) or b""))
        try:
            async with asyncio.timeout(self._limits.fetch_head_s):
                return await self._head()
        except TimeoutError as error:
            reason = f"no whole head within {self._limits.fetch_head_s:g} s"
            raise FetchUnavailable("head-deadline", reason) from error

    async def pour(self, head: Head, take: Take) -> None:
        """Hand the body that follows `head` to `take`, piece by piece, until it is whole.

        Raises what `take` raises, and FetchError or FetchUnavailable by the rule that was broken.
        """
        body = self._begin(head, take)
        if body.feed(self._unread):
            return
        if not await self._wire.pour(body.feed, self._limits.fetch_idle_s):
            body.end()

    def is_reusable(self, head: Head) -> bool:
        """Whether the answer with `head` is whole, nothing follows it, and both sides keep the connection.

        What has come of a body that nobody wanted is passed over here, so that redirects keep their connections.
        """
        try:
            if self._body is None:
                self._begin(head, lambda _: None).feed(self._unread)
        except FetchError:
            return False
        keeps = self._h11.our_state is h11.DONE  # else the answer said that it is the last
        return keeps and self._body is not None and self._body.is_clean and self._wire.is_quiet

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer, not even the end."""
        return self._wire.is_quiet

    def abort(self) -> None:
        """Close at once."""
        self._wire.abort()

    def _begin(self, head: Head, take: Take) -> Body:
        """The body, before anything of it was fed: h11 may hold its first bytes, the rest of the head's last piece."""
        if head.framing != "content-length":
            self._body = FramedBody(self._h11, self._limits, take)
            return self._body
        self._body = body = SizedBody(int(head.values(b"content-length")[0]), take)
        held = self._h11.trailing_data[0]
        if held:
            self._unread = memoryview(held + self._unread)
        return body

    async def _head(self) -> Head:
        interim = 0
        while True:
            event = self._next_event()
            if event is h11.NEED_DATA:
                await self._read_head_bytes()
                continue
            self._check_head_bytes()
            if isinstance(event, h11.Response):
                return self._checked(event)
            interim += 1
            if interim > self._limits.fetch_interim:
                reason = f"expected at most {self._limits.fetch_interim} 1xx answers, got more"
                raise FetchError("interim-count", reason)

    async def _read_head_bytes(self) -> None:
        """Give h11 the next bytes: few, because it copies them, and most of what comes with a head is body."""
        if not self._unread:
            self._unread = memoryview(await self._wire.read(self._limits.fetch_idle_s))
        if not self._unread:
            raise FetchUnavailable("connection-lost", "the connection ended before the head did")
        piece, self._unread = self._unread[:_STEP_BYTES], self._unread[_STEP_BYTES:]
        self._received += piece
        if not self._received.startswith(_START[: len(self._received)]):
            raise FetchError("http-protocol", "expected an HTTP/1.1 status line")  # HTTP/0.9 or another protocol
        self._h11.receive_data(bytes(piece))

    def _check_head_bytes(self) -> None:
        """Judge the heads so far: all that was received but what h11 has not taken yet."""
        end = len(self._received) - len(self._h11.trailing_data[0])
        if end > self._limits.fetch_header_bytes:
            raise FetchError("header-bytes", f"expected at most {self._limits.fetch_header_bytes} bytes, got {end}")
        heads = bytes(self._received[:end])
        if _ODD_LINE_END.search(heads):
            raise FetchError("head-line-end", "a line of the head does not end with CR LF (RFC 9112 §2.2)")
        if _FOLDED.search(heads):
            raise FetchError("head-folded", "a header is folded over lines (RFC 9112 §5.2)")

    def _checked(self, event: h11.Response) -> Head:
        if event.http_version not in (b"1.0", b"1.1"):
            raise FetchError("http-protocol", "expected HTTP/1.0 or HTTP/1.1")
        headers = tuple(event.headers.raw_items())
        if len(headers) > self._limits.fetch_headers:
            reason = f"expected at most {self._limits.fetch_headers} headers, got {len(headers)}"
            raise FetchError("header-count", reason)
        names = {name.lower() for name, _ in headers}
        coded, counted = b"transfer-encoding" in names, b"content-length" in names
        if coded and (counted or event.http_version == b"1.0"):
            raise FetchError("framing-ambiguous", "Transfer-Encoding with Content-Length or HTTP/1.0 (RFC 9112 §6.1)")
        framing = "chunked" if coded else "content-length" if counted else "until-close"
        return Head(event.status_code, headers, framing)

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _TOO_LARGE:
                limit = self._limits.fetch_header_bytes
                raise FetchError("header-bytes", f"expected a head of at most {limit} bytes, got more") from error
            raise FetchError("http-protocol", "the head is not HTTP/1.1") from error
