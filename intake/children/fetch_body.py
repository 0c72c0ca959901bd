"""A body, split from its framing as bytes arrive and handed on piece by piece: nothing of it is kept here.

Step 8 of docs/threat-model.md. A body of a known length is counted here, because h11 copies what it sees twice; the
other framings are h11's, and what it hides of them is bounded here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import h11

from contracts.errors import FetchError, FetchUnavailable
from contracts.limits import Limits

Take = Callable[[memoryview], None]
"""Who gets the pieces, now and then an empty one, so that time is judged also where only framing comes. A piece is gone
when it returns."""

_NOTHING = memoryview(b"")

_TOO_LARGE = 431  # h11's hint for an element that is larger than it may buffer


class Body(Protocol):
    """A body of one framing. `is_clean` tells that it is whole and nothing came behind it."""

    @property
    def is_clean(self) -> bool: ...

    def feed(self, data: memoryview) -> bool:
        """Hand on what is in `data`; whether the body is whole. Raises FetchError or FetchUnavailable."""
        ...

    def end(self) -> None:
        """The connection ended. Raises FetchUnavailable `body-truncated` where that makes no body whole."""
        ...


class SizedBody:
    """A body of `size_bytes` bytes."""

    def __init__(self, size_bytes: int, take: Take) -> None:
        self._left = size_bytes
        self._take = take
        self._has_spare = False

    @property
    def is_clean(self) -> bool:
        """See Body."""
        return not self._left and not self._has_spare

    def feed(self, data: memoryview) -> bool:
        """See Body."""
        piece = data[: self._left]
        self._has_spare = len(data) > len(piece)
        self._left -= len(piece)
        if piece:
            self._take(piece)
        return not self._left

    def end(self) -> None:
        """See Body."""
        raise FetchUnavailable("body-truncated", f"the connection ended {self._left} bytes before the body did")


class FramedBody:
    """A chunked body, or one that the connection's end ends, by the h11 that has its head."""

    def __init__(self, parser: h11.Connection, limits: Limits, take: Take) -> None:
        self._h11 = parser
        self._limits = limits
        self._take = take
        self._body_bytes = 0
        self._framing_bytes = len(parser.trailing_data[0])  # what came and is no body, once h11 has taken all it can

    @property
    def is_clean(self) -> bool:
        """See Body."""
        return self._h11.their_state is h11.DONE and not self._h11.trailing_data[0]

    def feed(self, data: memoryview) -> bool:
        """See Body. Raises FetchError `framing-bytes` beside the others."""
        if data:
            self._framing_bytes += len(data)
            self._h11.receive_data(bytes(data))
        while not isinstance(event := self._next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                self._check_framing()
                self._take(_NOTHING)
                return False
            self._body_bytes += len(event.data)
            self._framing_bytes -= len(event.data)
            self._take(memoryview(event.data))
        return True

    def end(self) -> None:
        """See Body."""
        self._h11.receive_data(b"")
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError:
            event = None
        if not isinstance(event, h11.EndOfMessage):
            raise FetchUnavailable("body-truncated", "the connection ended before the body did")

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _TOO_LARGE:
                reason = "a chunk's line or the trailers have no end within bounds"
                raise FetchError("framing-bytes", reason) from error
            raise FetchError("http-protocol", "the body is not HTTP/1.1") from error

    def _check_framing(self) -> None:
        if self._framing_bytes > self._limits.fetch_framing_bytes + self._body_bytes:
            reason = f"{self._framing_bytes} bytes of framing came with {self._body_bytes} bytes of body"
            raise FetchError("framing-bytes", reason)
