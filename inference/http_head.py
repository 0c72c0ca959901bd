"""The heads of one HTTP/1.1 exchange: the request's as bytes, the response's judged by h11 within a bound.

h11 sees heads only. Bodies are split from their framing by inference/http_body, because a stream is thousands of
small chunks, and h11 takes longer for one than all checks of its content do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from contracts.errors import StreamViolation

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case and values, in the order of the wire."""

_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_STATUS_LINE_BYTES = 1 << 10  # what a status line and the ends of lines may add to the headers' bytes


@dataclass(frozen=True, slots=True)
class Head:
    """A response's head. `is_last` tells that the connection is closed after it."""

    status: int
    headers: Headers
    is_last: bool

    def values(self, name: str) -> list[str]:
        """Every value of the header `name`, which is in lower case."""
        wanted = name.encode()
        return [value.decode("latin-1") for given, value in self.headers if given == wanted]


class HeadExchange:
    """One request's head and its response's. `feed` until it gives the head."""

    def __init__(self, target: str, headers: list[tuple[str, str]], *, max_bytes: int) -> None:
        """Raises h11.LocalProtocolError for what cannot be sent as one head."""
        self._h11 = h11.Connection(h11.CLIENT)
        self._max_bytes = max_bytes + _STATUS_LINE_BYTES
        self._seen = bytearray()
        self.request: bytes = self._h11.send(h11.Request(method="POST", target=target, headers=headers)) or b""

    def feed(self, data: bytes) -> tuple[Head, bytes] | None:
        """Take bytes: the response's head and the bytes behind it, or None as long as there is none.

        Interim responses (1xx) are passed over; their bytes count too. Raises StreamViolation:
        `response-header-bytes`, `http-framing`.
        """
        seen = self._seen
        seen += data
        while (end := seen.find(b"\r\n\r\n") + 4) > 3:
            if end > self._max_bytes:
                break
            head = self._judged(bytes(seen[:end]))
            if head is not None:
                return head, bytes(seen[end:])
            self._max_bytes -= end
            del seen[:end]
        if len(seen) > self._max_bytes:
            raise StreamViolation("response-header-bytes", f"expected at most {self._max_bytes} bytes, got more")
        return None

    def _judged(self, head: bytes) -> Head | None:
        """h11 also takes bare line feeds as line ends: its head could end before ours, and what is between be lost."""
        if _BARE_LINE_FEED.search(head):
            raise StreamViolation("http-framing", "not a head of HTTP/1.1: a line feed without its carriage return")
        try:
            self._h11.receive_data(head)
            event = self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise StreamViolation("http-framing", f"not a head of HTTP/1.1: {str(error)[:80]}") from None
        if isinstance(event, h11.InformationalResponse):
            return None
        if not isinstance(event, h11.Response):
            raise StreamViolation("http-framing", "expected one response, got something else")
        headers = tuple((bytes(name), bytes(value)) for name, value in event.headers)
        options = b",".join(value.lower() for name, value in headers if name == b"connection")
        is_last = event.http_version != b"1.1" or b"close" in [option.strip() for option in options.split(b",")]
        return Head(event.status_code, headers, is_last)
