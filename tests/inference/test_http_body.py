"""Bodies and their framing: the content is what was framed, in every partition, or the framing is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.http_body import Body, ChunkedBody, OpenBody, SizedBody, body_of
from inference.http_head import Head
from tests.contracts.wire_chunks import partitions


def _fed(body: Body, parts: list[bytes]) -> bytes:
    return b"".join(body.feed(part) for part in parts if not body.broken)


def _framed(contents: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    chunks = [b"%X%b\r\n%b\r\n" % (len(each), extension, each) for each in contents if each]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


@given(
    contents=st.lists(st.binary(max_size=40), max_size=8),
    extension=st.sampled_from([b"", b" ", b";a=b", b' ; a="b c"']),
    trailer=st.sampled_from([b"", b"a: b\r\n", b"a: b\r\nc: d\r\n"]),
    draw=st.data(),
)
def test_chunks_are_their_content(contents: list[bytes], extension: bytes, trailer: bytes, draw: st.DataObject) -> None:
    """However chunks, extensions and trailers are cut, the content comes out, and the end is known."""
    whole = _framed(contents, extension, trailer)
    body = ChunkedBody()
    assert _fed(body, draw.draw(partitions(whole))) == b"".join(contents)
    assert (body.is_done, body.has_spare) == (True, False)


@given(st.integers(0, len(_framed([b"hello", b"you"])) - 1))
def test_a_cut_chunked_body_is_not_whole(length: int) -> None:
    """Without the last chunk's end it is not done, and the end of the connection does not make it so."""
    body = ChunkedBody()
    body.feed(_framed([b"hello", b"you"])[:length])
    assert not body.is_done
    assert not body.end()


@pytest.mark.parametrize(
    "data",
    [b"x\r\n", b"\r\n", b"-5\r\n", b"0x5\r\n", b"5 5\r\n", b"1" * 16 + b"\r\n", b"5;" + b"a" * 300, b"1\r\nab\r\n"],
    ids=["no number", "an empty size", "a sign", "a prefix", "two sizes", "too large", "an endless line", "too long"],
)
def test_other_framing_is_refused(data: bytes) -> None:
    """What is no chunk ends the exchange, whole and byte by byte."""
    for parts in ([data], [data[index : index + 1] for index in range(len(data))]):
        body = ChunkedBody()
        assert _fed(body, parts) in (b"", b"a")
        assert body.broken


def test_trailers_are_bounded() -> None:
    """A worker cannot send trailers for ever."""
    body = ChunkedBody()
    body.feed(b"0\r\n" + b"a: bcdefgh\r\n" * 1_000)
    assert body.broken == "the trailers are too large"


@pytest.mark.parametrize("body", [ChunkedBody(), SizedBody(5)], ids=["chunked", "sized"])
def test_bytes_behind_the_end_are_told(body: Body) -> None:
    """They are not content, and the connection that brought them is not used again."""
    framed = b"5\r\nhello\r\n0\r\n\r\n" if isinstance(body, ChunkedBody) else b"hello"
    assert body.feed(framed + b"HTTP") == b"hello"
    assert (body.is_done, body.has_spare) == (True, True)


PIECES = [b"1\r\n", b"a", b"\r\n", b"\r", b"\n", b"0\r\n", b"\r\n\r\n", b"5;x", b"hello"]


@given(data=st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=20).map(b"".join), draw=st.data())
def test_any_bytes_are_content_or_refused_the_same_in_every_partition(data: bytes, draw: st.DataObject) -> None:
    """Nothing is raised, and where the bytes were cut changes neither the content nor the end."""
    ends = []
    for parts in ([data], draw.draw(partitions(data))):
        body = ChunkedBody()
        ends.append((_fed(body, parts), body.is_done, body.broken is None))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (200, ((b"transfer-encoding", b"chunked"),), ChunkedBody),
        (200, ((b"content-length", b"5"),), SizedBody),
        (200, (), OpenBody),
        (204, ((b"transfer-encoding", b"chunked"),), SizedBody),
    ],
    ids=["chunked", "length", "neither", "no content"],
)
def test_the_head_says_how_the_body_is_framed(
    status: int, headers: tuple[tuple[bytes, bytes], ...], kind: type[Body]
) -> None:
    """RFC 9112, section 6.3, for the answers that a POST can have."""
    assert isinstance(body_of(Head(status, headers, False)), kind)
