"""The event-stream decoder: WHATWG framing, any partition, every bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import Digest
from contracts.errors import StreamViolation
from contracts.limits import Limits
from contracts.sse import SseDecoder, stream_events
from tests.contracts.wire_chunks import partitions

WIRE = sorted((Path(__file__).parent.parent / "vectors" / "wire").glob("*.sse"))

FRAMING = {
    "a byte order mark at the start is dropped": (b"\xef\xbb\xbfdata: a\n\n", [("message", "a")]),
    "only one byte order mark is dropped": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "a byte order mark later is text": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("message", "a")]),
    "CR ends lines": (b"data: a\r\rdata: b\r\r", [("message", "a"), ("message", "b")]),
    "CRLF ends lines": (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", "a"), ("message", "b")]),
    "line ends may be mixed": (b"data: a\rdata: b\r\ndata: c\n\r\n", [("message", "a\nb\nc")]),
    "LF then CR are two line ends": (b"data: a\n\rdata: b\n\n", [("message", "a"), ("message", "b")]),
    "comments are no events": (b": hello\n:\n\ndata: a\n:b\ndata: c\n\n", [("message", "a\nc")]),
    "a field without colon is empty": (
        b"data\n\ndata\ndata\n\ndata:\n\n",
        [("message", ""), ("message", "\n"), ("message", "")],
    ),
    "one leading space is dropped": (
        b"data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n",
        [("message", "a"), ("message", "a"), ("message", " a"), ("message", "\ta")],
    ),
    "NUL passes through": (b"data: a\x00b\n\n", [("message", "a\x00b")]),
    "the default type may be named": (b"event: message\ndata: a\n\n", [("message", "a")]),
    "an empty type is the default": (b"event: x\nevent:\ndata: a\n\n", [("message", "a")]),
    "a type lasts for one event": (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("message", "b")]),
    "an event without data is dropped with its type": (b"event: x\n\ndata: a\n\n", [("message", "a")]),
    "other fields are ignored": (b"id: 1\nretry: 5\nDATA: x\n data: x\nfoo\ndata: a\n\n", [("message", "a")]),
    "only the first colon splits": (b"data: a: b\n\n", [("message", "a: b")]),
    "blank lines alone are nothing": (b"\n\n\n\r\n\r\rdata: a\n\n\n\n\n", [("message", "a")]),
    "an event cut off by the end is dropped": (b"data: a\n\ndata: b\n", [("message", "a")]),
    "a line cut off by the end is dropped": (b"data: a\n\ndata: b", [("message", "a")]),
    "an empty stream has no event": (b"", []),
    "multi-byte characters survive": ("data: größe 🙂\n\n".encode(), [("message", "größe 🙂")]),
}

BROKEN = {
    "wire-bytes": (b"data: a\n\n" * 3, Limits().changed({"stream_wire_bytes": 20}), 2),
    "line-bytes": (b"data: a\n\ndata: 0123456789abc\n\n", Limits().changed({"stream_line_bytes": 16}), 1),
    "event-bytes": (b"data: a\n\n" + b"data: 0123456\n" * 3 + b"\n", Limits().changed({"stream_event_bytes": 16}), 1),
    "comments": (b":\ndata: a\n\n:\n:\ndata: b\n\n", Limits().changed({"stream_comments": 2}), 1),
    "utf-8": (b"data: a\n\ndata: \xff\n\ndata: b\n\n", Limits(), 1),
}


def everything(parts: list[bytes], limits: Limits) -> tuple[list[tuple[str, str]], str | None]:
    events, error = stream_events(parts, limits)
    return events, error.split(":")[0] if error else None


def bytewise(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize(("data", "events"), FRAMING.values(), ids=FRAMING)
def test_the_framing_is_that_of_the_standard(data: bytes, events: list[tuple[str, str]]) -> None:
    """WHATWG HTML 9.2.6, whole, byte by byte, and cut in two at every place."""
    assert stream_events([data]) == (events, None)
    assert stream_events(bytewise(data)) == (events, None)
    for cut in range(len(data)):
        assert stream_events([data[:cut], b"", data[cut:]]) == (events, None)


@pytest.mark.parametrize("rule", BROKEN)
def test_each_bound_has_its_own_name_and_spares_the_events_before_it(rule: str) -> None:
    """A violation ends the stream by its rule in every partition, after the same events."""
    data, limits, before = BROKEN[rule]
    for parts in ([data], bytewise(data), [data[:11], data[11:]]):
        events, error = everything(parts, limits)
        assert (error, len(events)) == (rule, before)


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({"stream_line_bytes": 7}, b"data: a\n\n"),
        ({"stream_event_bytes": 3}, b"data: a\ndata: b\n\n"),
        ({"stream_comments": 1}, b":\ndata: a\n\n"),
        ({"stream_wire_bytes": 9}, b"data: a\n\n"),
    ],
    ids=["line-bytes", "event-bytes", "comments", "wire-bytes"],
)
def test_every_bound_is_an_inclusive_maximum(changes: dict[str, int], data: bytes) -> None:
    """What is exactly as large as allowed passes; one less allowed, and it does not."""
    name, bound = next(iter(changes.items()))
    assert everything([data], Limits().changed(changes))[1] is None
    assert everything([data], Limits().changed({name: bound - 1}))[1] is not None


def test_a_line_without_end_is_refused_before_it_ends() -> None:
    """The buffer of an unfinished line is bounded while bytes arrive."""
    decoder = SseDecoder(Limits().changed({"stream_line_bytes": 100}))
    assert list(decoder.feed(b"data: " + b"x" * 94)) == []
    with pytest.raises(StreamViolation, match="line-bytes"):
        list(decoder.feed(b"x"))


def test_what_the_end_cut_off_can_be_told() -> None:
    """An unfinished event and an unfinished line are inside an event; a comment and nothing are not."""
    seen = {}
    for tail in (b"", b": keep", b"data: b", b"data: b\n", b"event: x\n", b"data: b\n\n"):
        decoder = SseDecoder(Limits())
        list(decoder.feed(b"data: a\n\n" + tail))
        seen[tail] = decoder.inside_event
    assert [tail for tail, inside in seen.items() if inside] == [b"data: b", b"data: b\n", b"event: x\n"]


def test_field_lines_without_an_event_are_counted() -> None:
    """A later stage can tell silence from fields that were dropped."""
    decoder = SseDecoder(Limits())
    list(decoder.feed(b"event: x\nid: 1\n\n:\n\n<p>\n\ndata: a\n\n"))
    assert (decoder.undispatched, decoder.unknown, decoder.comments) == (3, 1, 1)


PAGES = {b"<!doctype html>": True, b'{"message":"x"}': True, b"data": False, b"dat": False, b"ev": False, b": x": False}


@pytest.mark.parametrize(("data", "foreign"), PAGES.items(), ids=[page.decode() for page in PAGES])
def test_a_page_is_told_from_an_event_stream(data: bytes, foreign: bool) -> None:
    """An unfinished line counts as soon as no field's name can begin like it."""
    decoder = SseDecoder(Limits())
    list(decoder.feed(data))
    assert decoder.is_foreign is foreign


@pytest.mark.parametrize("file", WIRE, ids=lambda file: file.stem)
@given(draw=st.data())
def test_vectors_decode_the_same_in_every_partition(file: Path, draw: st.DataObject) -> None:
    """Random cuts change neither events nor error, with any line end."""
    data = file.read_bytes().replace(b"\n", draw.draw(st.sampled_from([b"\n", b"\r", b"\r\n"])))
    parts = draw.draw(partitions(data))
    assert stream_events(parts) == stream_events([file.read_bytes()])


SMALL = Limits().changed(
    {"stream_line_bytes": 24, "stream_event_bytes": 20, "stream_wire_bytes": 120, "stream_comments": 3}
)
PIECES = st.sampled_from(
    [
        b"data: ",
        b"data",
        b"event: x",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b":",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        b"\xa4",
        b"abc" * 5,
    ]
)
HOSTILE = st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=40).map(b"".join))


@given(data=HOSTILE, draw=st.data())
def test_any_bytes_are_events_or_a_violation_in_every_partition(data: bytes, draw: st.DataObject) -> None:
    """Nothing but StreamViolation is raised, and where the bytes were cut makes no difference."""
    whole = everything([data], SMALL)
    assert everything(draw.draw(partitions(data)), SMALL) == whole
    assert everything(bytewise(data), SMALL) == whole


@given(data=HOSTILE, draw=st.data())
def test_the_running_digest_is_that_of_the_bytes_fed(data: bytes, draw: st.DataObject) -> None:
    """Also after a violation."""
    decoder, fed = SseDecoder(SMALL), b""
    for part in draw.draw(partitions(data)):
        fed += part
        try:
            list(decoder.feed(part))
        except StreamViolation:
            decoder.absorb(b"more")
            fed += b"more"
            break
        assert decoder.digest == Digest.of(fed)
    assert (decoder.digest, decoder.wire_bytes) == (Digest.of(fed), len(fed))
