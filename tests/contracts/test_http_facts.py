"""What records keep of answers: no query, no userinfo, no end of text, and a time only where one was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.http_facts import recorded_headers, retry_after_s, shown_url
from contracts.records import RECORDED_HEADERS

NOW = 1_445_412_000.0  # Wed, 21 Oct 2015 07:20:00 GMT


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/a?token=x#part", "https://example.org/a"),
        ("https://user:secret@example.org/@a", "https://example.org/@a"),
        ("/a?b", "/a"),
        ("/@user/a", "/@user/a"),
        ("//user@example.org/a?b", "//example.org/a"),
        ("http:user:secret@example.org", "example.org"),
        ("http:\\\\user:secret@example.org", "example.org"),
        ("http:\\\\user:secret@example.org\\a//b", "example.org\\a//b"),
        ("http:/user:secret@example.org/a//b", "example.org/a//b"),
        ("\\\\user:secret@example.org//a", "example.org//a"),
        ("/\\user:secret@example.org/a", "example.org/a"),
        ("https:///user:secret@example.org/", "https://example.org/"),
        ("user:secret@example.org//a", "example.org//a"),
        ("/cdn//image@2/a", "/cdn//image@2/a"),
        ("images/face@2.png", "images/face@2.png"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """Neither query nor fragment nor userinfo, also of what is no proper URL."""
    assert shown_url(url, with_query=False) == shown


def test_a_policy_may_record_queries() -> None:
    """Then the query is shown, and still no fragment or userinfo."""
    assert shown_url("https://u:p@example.org/a?b=c?d#e", with_query=True) == "https://example.org/a?b=c?d"
    assert shown_url("https://example.org/a", with_query=True) == "https://example.org/a"


def test_headers_that_a_hop_keeps() -> None:
    """Those of the list in the order in which they came, cut and escaped; a location is shown as URLs are."""
    came = [
        (b"ETag", b'"\xff"'),
        (b"Set-Cookie", b"secret"),
        (b"Location", b"/a?token=x"),
        (b"SERVER", b"s" * 600),
        (b"location", b"/b"),
        (b"location", b"/c"),
    ]
    assert recorded_headers(came, with_query=False) == (
        ("etag", '"\\xff"'),
        ("location", "/a"),
        ("server", "s" * 512),
        ("location", "/b"),
    )
    assert ("location", "/a?token=x") in recorded_headers(came, with_query=True)


@given(st.lists(st.tuples(st.sampled_from([name.encode() for name in RECORDED_HEADERS]), st.binary(max_size=3000))))
def test_recorded_headers_are_bounded(came: list[tuple[bytes, bytes]]) -> None:
    """Whatever comes, few headers of few characters are kept."""
    kept = recorded_headers(came, with_query=True)
    assert len(kept) <= 2 * len(RECORDED_HEADERS)
    assert all(len(value) <= (2048 if name == "location" else 512) for name, value in kept)
    assert all(value.isascii() for _, value in kept)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"120", 120.0),
        (b" 0 ", 0.0),
        (b"86400", 86400.0),
        (b"86401", None),
        (b"9" * 100, None),
        (b"-1", None),
        (b"1.5", None),
        (b"", None),
        (b"soon", None),
        (b"\xff", None),
        (b"Wed, 21 Oct 2015 07:28:00 GMT", 480.0),
        (b"Wed, 21 Oct 2015 07:28:00", 480.0),
        (b"Wed, 21 Oct 2014 07:28:00 GMT", 0.0),
        (b"Wed, 21 Oct 2017 07:28:00 GMT", None),
        (b"Wed, 99 Oct 2015 07:28:00 GMT", None),
        (b"Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
    ],
)
def test_when_a_server_wants_to_be_asked_again(value: bytes, seconds: float | None) -> None:
    """Seconds or a date, at most a day away; anything else is nothing said."""
    assert retry_after_s(value, NOW) == seconds


@given(st.binary(max_size=60))
def test_any_retry_after_is_read_or_ignored(value: bytes) -> None:
    """Never an error, never a time out of bounds."""
    seconds = retry_after_s(value, NOW)
    assert seconds is None or 0 <= seconds <= 86_400
