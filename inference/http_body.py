"""Response bodies, split from their framing as bytes arrive: RFC 9112, sections 6 and 7.1. Pure.

Nothing is kept but an unfinished line of the framing, so memory does not depend on what is sent.
"""

from __future__ import annotations

import re
from typing import Protocol

from inference.http_head import Head

_LINE_BYTES = 256  # a chunk's size, its extensions; one trailer
_TRAILER_BYTES = 4 << 10
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_NO_BODY = frozenset({204, 304})


class _Broken(Exception):
    """The bytes are no body of their framing."""


class Body(Protocol):
    """A body of one framing.

    `is_done` tells that it is whole, `has_spare` that bytes came behind it, `broken` why the bytes are none: then
    nothing more may be fed.
    """

    is_done: bool
    has_spare: bool
    broken: str | None

    def feed(self, data: bytes) -> bytes:
        """The content in `data`, up to where it breaks."""
        ...

    def end(self) -> bool:
        """The connection ended: whether the body is whole by that."""
        ...


class ChunkedBody:
    """A chunked body. Extensions and trailers are passed over, within bounds."""

    def __init__(self) -> None:
        self.is_done = False
        self.has_spare = False
        self.broken: str | None = None
        self._rest = b""  # an unfinished line
        self._left = 0  # bytes of the chunk that have not come
        self._at_chunk_end = False  # a chunk's own line end comes next
        self._in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """The content in `data`, up to where it breaks."""
        content: list[bytes] = []
        data = self._rest + data if self._rest else data
        try:
            at = self._split(data, content)
        except _Broken as broken:
            self.broken, at = str(broken), len(data)
        self._rest = b"" if self.is_done else data[at:]
        self.has_spare = self.has_spare or (self.is_done and at < len(data))
        return content[0] if len(content) == 1 else b"".join(content)

    def _split(self, data: bytes, content: list[bytes]) -> int:
        """Append the content to `content`; how far it came."""
        at = 0
        while not self.is_done:
            if self._left:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._at_chunk_end = True
            stop = data.find(b"\r\n", at, at + _LINE_BYTES)
            if stop < 0:
                if len(data) - at >= _LINE_BYTES or (self._at_chunk_end and data[at : at + 1] not in (b"", b"\r")):
                    raise _Broken("a line of the chunked framing does not end")
                break
            self._line(data[at:stop])
            at = stop + 2
        return at

    def _line(self, line: bytes) -> None:
        if self._at_chunk_end:
            if line:
                raise _Broken("a chunk is longer than its size")
            self._at_chunk_end = False
        elif self._in_trailers:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > _TRAILER_BYTES:
                raise _Broken("the trailers are too large")
            self.is_done = not line
        else:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise _Broken("a chunk's size is no hexadecimal number")
            self._left = int(size[1], 16)
            self._in_trailers = self._left == 0

    def end(self) -> bool:
        """A chunked body says itself where it ends."""
        return False


class SizedBody:
    """A body of a known length."""

    broken: str | None = None

    def __init__(self, size_bytes: int) -> None:
        self.has_spare = False
        self._left = size_bytes
        self.is_done = size_bytes == 0

    def feed(self, data: bytes) -> bytes:
        """The content in `data`."""
        content = data[: self._left]
        self._left -= len(content)
        self.is_done = self._left == 0
        self.has_spare = self.has_spare or len(data) > len(content)
        return content

    def end(self) -> bool:
        """It is not whole before its length."""
        return False


class OpenBody:
    """A body that the end of the connection ends."""

    is_done = False
    has_spare = True
    broken: str | None = None

    def feed(self, data: bytes) -> bytes:
        """All of it."""
        return data

    def end(self) -> bool:
        """That is its end."""
        return True


def body_of(head: Head) -> Body:
    """The body that follows `head`, whose framing headers h11 has judged."""
    if head.status in _NO_BODY:
        return SizedBody(0)
    if head.values("transfer-encoding"):
        return ChunkedBody()
    lengths = head.values("content-length")
    return SizedBody(int(lengths[0])) if lengths else OpenBody()
