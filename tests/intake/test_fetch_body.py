"""Bodies split from their framing: the same content however the bytes come, and none that the framing does not hold."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import FetchUnavailable
from contracts.limits import Limits
from intake.children.fetch_body import Body, FramedBody, SizedBody, Take

CONTENTS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
CUTS = st.lists(st.integers(0, 400), max_size=8)


class Taken:
    """Who takes pieces: copies them, because they are gone afterwards."""

    def __init__(self) -> None:
        self.content = b""
        self.pieces = 0

    def take(self, piece: memoryview) -> None:
        self.content += piece
        self.pieces += 1


def sized(size_bytes: int, take: Take) -> SizedBody:
    return SizedBody(size_bytes, take)


def framed(head: bytes, take: Take) -> FramedBody:
    """A body behind `head`, whose bytes may begin the body."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(b"HTTP/1.1 200 OK\r\n" + head)
    assert isinstance(parser.next_event(), h11.Response)
    return FramedBody(parser, Limits(), take)


def feed_cut(body: Body, data: bytes, cuts: list[int]) -> bool:
    """Feed `data` in pieces, each overwritten afterwards, as a connection's buffer is; whether the body is whole."""
    whole = False
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, stop in pairwise(borders):
        buffer = bytearray(data[start:stop])
        whole = body.feed(memoryview(buffer))
        buffer[:] = b"!" * len(buffer)
    return whole


def chunked(contents: list[bytes]) -> bytes:
    return b"".join(b"%x;a=b\r\n%b\r\n" % (len(each), each) for each in contents) + b"0\r\nT: x\r\n\r\n"


@given(contents=CONTENTS, cuts=CUTS)
def test_a_chunked_body_is_the_same_however_it_is_cut(contents: list[bytes], cuts: list[int]) -> None:
    """Content without framing, whole at its last chunk and not before, clean."""
    taken = Taken()
    body = framed(b"Transfer-Encoding: chunked\r\n\r\n", taken.take)
    assert feed_cut(body, chunked(contents), cuts)
    assert taken.content == b"".join(contents)
    assert body.is_clean


@given(contents=CONTENTS, held=st.integers(0, 60))
def test_what_came_with_the_head_belongs_to_the_body(contents: list[bytes], held: int) -> None:
    """Bytes that the parser holds already are the body's first."""
    data, taken = chunked(contents), Taken()
    body = framed(b"Transfer-Encoding: chunked\r\n\r\n" + data[:held], taken.take)
    assert body.feed(memoryview(data[held:]))
    assert taken.content == b"".join(contents)


@given(content=st.binary(min_size=1, max_size=200), spare=st.binary(max_size=5), cuts=CUTS)
def test_a_sized_body_ends_at_its_length(content: bytes, spare: bytes, cuts: list[int]) -> None:
    """What is behind it is not handed on, and makes the connection unclean."""
    taken = Taken()
    body = sized(len(content), taken.take)
    inside = [cut for cut in cuts if cut < len(content)]
    assert feed_cut(body, content + spare, inside)
    assert taken.content == content
    assert body.is_clean == (not spare)


@given(content=st.binary(min_size=1, max_size=200), cuts=CUTS)
def test_a_body_that_the_end_ends_is_whole_by_it_and_never_clean(content: bytes, cuts: list[int]) -> None:
    """Until then it is not whole, whatever came."""
    taken = Taken()
    body = framed(b"\r\n", taken.take)
    assert not feed_cut(body, content, cuts)
    body.end()
    assert taken.content == content


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(sized(3, lambda _: None), id="of a length"),
        pytest.param(framed(b"Transfer-Encoding: chunked\r\n\r\n3\r\nab", lambda _: None), id="chunked"),
    ],
)
def test_a_body_that_ends_early_is_truncated(body: Body) -> None:
    """The connection's end makes neither whole."""
    body.feed(memoryview(b"") if isinstance(body, FramedBody) else memoryview(b"ab"))
    with pytest.raises(FetchUnavailable, match="body-truncated"):
        body.end()
    assert not body.is_clean


def test_time_is_judged_also_where_only_framing_comes() -> None:
    """Each read calls the taker, with an empty piece if need be."""
    taken = Taken()
    body = framed(b"Transfer-Encoding: chunked\r\n\r\n", taken.take)
    for byte in b"5;ext":
        assert not body.feed(memoryview(bytes([byte])))
    assert (taken.content, taken.pieces) == (b"", 5)
