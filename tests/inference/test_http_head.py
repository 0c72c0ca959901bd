"""Heads: what is sent is one request, what comes back is one response's head within its bound."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import StreamViolation
from inference.http_head import HeadExchange
from tests.contracts.wire_chunks import partitions

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Two: a\r\nx-two: b\r\n\r\n"


def _exchange(max_bytes: int = 4096) -> HeadExchange:
    return HeadExchange("/v1", [("host", "h"), ("content-length", "0")], max_bytes=max_bytes)


@given(st.data())
def test_a_head_is_the_same_in_every_partition(draw: st.DataObject) -> None:
    """Status, headers in lower case, and the bytes behind it, also after an interim response."""
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + _HEAD + b"data"
    exchange, behind, head = _exchange(), b"", None
    for part in draw.draw(partitions(data)):
        if head is not None:
            behind += part
        elif found := exchange.feed(part):
            head, behind = found
    assert head is not None
    assert (head.status, head.is_last, behind) == (200, False, b"data")
    assert (head.values("content-type"), head.values("x-two"), head.values("x")) == (
        ["text/event-stream"],
        ["a", "b"],
        [],
    )


@pytest.mark.parametrize(
    "data",
    [b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive, Close\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"],
    ids=["close", "1.0"],
)
def test_a_head_says_whether_the_connection_goes_on(data: bytes) -> None:
    """`close` as one of several options, and HTTP/1.0, end it."""
    found = _exchange().feed(data)
    assert found is not None
    assert found[0].is_last


@pytest.mark.parametrize(
    "data",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-type: text/event-stream\n\ndata: lost\n\ndata: x\r\n\r\n",
    ],
    ids=["another protocol", "no colon", "a space in a name", "two lengths", "another coding", "bare line feeds"],
)
def test_what_is_no_head_is_refused(data: bytes) -> None:
    """By the rule of the framing, with a bounded reason."""
    with pytest.raises(StreamViolation, match="http-framing") as caught:
        _exchange().feed(data)
    assert len(caught.value.reason) < 150


@pytest.mark.parametrize("data", [b"x" * 9_999, b"HTTP/1.1 100 Continue\r\n\r\n" * 999], ids=["one", "many interim"])
def test_heads_are_bounded_as_they_come(data: bytes) -> None:
    """Neither a head without end nor interim responses without end are kept."""
    exchange = _exchange(max_bytes=2048)
    parts = (exchange.feed(data[start : start + 100]) for start in range(0, len(data), 100))
    with pytest.raises(StreamViolation, match="response-header-bytes"):
        list(parts)


def test_a_header_that_would_be_two_is_not_sent() -> None:
    """A line end in a value cannot reach the wire."""
    with pytest.raises(h11.LocalProtocolError):
        HeadExchange("/v1", [("host", "h\r\nx: y")], max_bytes=100)
