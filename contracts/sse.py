"""Server-sent events, decoded without I/O: WHATWG HTML, section 9.2.6, with invalid UTF-8 an error instead of U+FFFD.

Bytes may come in any partition; the events, and the violation that ends them, are the same for all of them. Line ends
are made line feeds as bytes arrive, so that all later work is splitting at one byte: that, and checking UTF-8 a whole
block at a time, is what makes it fast. Data stays bytes until somebody wants text: JSON readers take UTF-8 as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contracts.digest import Digest, Hasher
from contracts.errors import StreamViolation
from contracts.limits import Limits

Event = tuple[str, str]
"""Type (`message` where the stream names none) and data."""

RawEvent = tuple[str, bytes]
"""Type and data, the data still UTF-8."""

_KNOWN_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Incremental, bounded decoder. After a violation or the end of the stream it is used up.

    `undispatched` counts field lines that ended up in no event, `unknown` those whose field the standard does not
    know: a stream with many is something else than an event stream.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._block_bytes = min(limits.stream_line_bytes, limits.stream_event_bytes)
        self._hasher = Hasher()
        self._pending = bytearray()  # the line that has not ended yet
        self._skip_line_feed = False  # the last byte was CR: a LF right after it belongs to it
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = b""
        self._open_fields = 0  # field lines since the last blank line
        self.comments = 0
        self.undispatched = 0
        self.unknown = 0

    @property
    def wire_bytes(self) -> int:
        """How many bytes were fed."""
        return self._hasher.size_bytes

    @property
    def digest(self) -> Digest:
        """The digest of all bytes fed, also of those after a violation."""
        return self._hasher.digest()

    @property
    def inside_event(self) -> bool:
        """Whether bytes were fed that belong to a line or an event that has not ended. A comment is not an event."""
        return self._open_fields > 0 or (bool(self._pending) and not self._pending.startswith(b":"))

    @property
    def is_foreign(self) -> bool:
        """Whether a line was fed that no event stream has, such as one of an HTML page."""
        begun, colon, _ = bytes(self._pending[:16]).removeprefix(_BYTE_ORDER_MARK).partition(b":")
        known = not begun or begun in _KNOWN_FIELDS or (not colon and any(f.startswith(begun) for f in _KNOWN_FIELDS))
        return self.unknown > 0 or not known

    def absorb(self, data: bytes) -> None:
        """Count and hash bytes that come after a violation; they are not decoded."""
        self._hasher.update(data)

    def feed(self, data: bytes) -> Iterator[RawEvent]:
        """Take bytes; the events they complete are decoded as the result is iterated, which must be to its end.

        The iterator raises StreamViolation after the events before it: `wire-bytes`, `line-bytes`, `event-bytes`,
        `comments`, `utf-8`.
        """
        room = self._limits.stream_wire_bytes - self._hasher.size_bytes
        self._hasher.update(data)
        return self._decode(data, room)

    def _decode(self, data: bytes, room: int) -> Iterator[RawEvent]:
        block, violation = self._complete_lines(data[: max(room, 0)] if len(data) > room else data)
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                block = block[: block.rfind(b"\n", 0, error.start) + 1]
                violation = StreamViolation("utf-8", "expected UTF-8, got a line with other bytes")
        if block:
            if self._at_start:
                block = block.removeprefix(_BYTE_ORDER_MARK)
                self._at_start = False
            yield from self._events(block, roomy=len(block) <= self._block_bytes)
        if violation is not None:
            raise violation
        if len(data) > room:
            raise _too_much("wire-bytes", "bytes", self._limits.stream_wire_bytes)

    def _complete_lines(self, data: bytes) -> tuple[bytes, StreamViolation | None]:
        """The lines that `data` completes, up to the first that is too long, each ended by one line feed."""
        if self._skip_line_feed and data:
            data = data.removeprefix(b"\n")
            self._skip_line_feed = False
        if b"\r" in data:
            self._skip_line_feed = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        block = bytes(self._pending) + data[:end] if end else b""
        if end:
            self._pending.clear()
        self._pending += data[end:]
        bound = self._limits.stream_line_bytes
        too_long = len(self._pending) > bound
        if len(block) > bound:
            start = 0
            while start < len(block):
                stop = block.index(b"\n", start)
                if stop - start > bound:
                    block, too_long = block[:start], True
                    break
                start = stop + 1
        return block, _too_much("line-bytes", "bytes a line", bound) if too_long else None

    def _events(self, block: bytes, *, roomy: bool) -> Iterator[RawEvent]:
        """The events of complete lines. `roomy`: they are so short together that no bound of one can be exceeded."""
        groups = block.split(b"\n\n")
        last = groups.pop()
        single = roomy and block.count(b"\n") == 2 * len(groups)  # then each group is one line
        for group in groups:
            if single and group.startswith(b"data: ") and not self._open_fields:
                yield "message", group[6:]
                continue
            yield from self._lines(group.split(b"\n"))
            yield from self._dispatch()
        yield from self._lines(last.split(b"\n")[:-1])

    def _lines(self, lines: list[bytes]) -> Iterator[RawEvent]:
        for line in lines:
            if not line:
                yield from self._dispatch()
            elif line.startswith(b":"):
                self.comments += 1
                if self.comments > self._limits.stream_comments:
                    raise _too_much("comments", "comments", self._limits.stream_comments)
            else:
                name, _, value = line.partition(b":")
                self._field(name, value.removeprefix(b" "))

    def _field(self, name: bytes, value: bytes) -> None:
        self._open_fields += 1
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            if self._data_bytes - 1 > self._limits.stream_event_bytes:
                raise _too_much("event-bytes", "bytes an event", self._limits.stream_event_bytes)
        elif name == b"event":
            self._name = value
        elif name not in _KNOWN_FIELDS:
            self.unknown += 1

    def _dispatch(self) -> Iterator[RawEvent]:
        """A blank line: the event, if it has data, and a fresh start."""
        data, name = self._data, self._name
        if data:
            self._data, self._data_bytes = [], 0
        else:
            self.undispatched += self._open_fields
        self._name, self._open_fields = b"", 0
        if data:
            yield name.decode() or "message", b"\n".join(data)


def _too_much(rule: str, what: str, bound: int) -> StreamViolation:
    return StreamViolation(rule, f"expected at most {bound} {what}, got more")


def stream_events(chunks: Iterable[bytes], limits: Limits | None = None) -> tuple[list[Event], str | None]:
    """What the decoder alone sees in a whole stream: its events, and the violation that ended them, if any.

    An event that the end of the stream cut off is dropped, as the standard says.
    """
    decoder = SseDecoder(limits or Limits())
    events: list[Event] = []
    try:
        for chunk in chunks:
            events.extend((name, data.decode()) for name, data in decoder.feed(chunk))
    except StreamViolation as violation:
        return events, str(violation)
    return events, None
