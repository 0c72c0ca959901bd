"""Step 8 of a fetch (docs/threat-model.md): every bound holds while bytes arrive, each by its own rule.

The real confined child against real sockets. The step numbers in the ids are those of the threat model.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import trustme

from contracts.errors import EvidenceError, FetchError, FetchUnavailable, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from contracts.records import AcquisitionRecord
from intake.children.fetch_network import tls_context
from intake.fetcher import Fetcher
from tests.intake.hostile_origin import Turn, hang_up_without_notice, hostile, pour, reset, say, shake_hands, silence

LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
MAX_BYTES = 8192
LIMITS = Limits().changed(
    {
        "fetch_connect_s": 1.0,
        "fetch_tls_s": 0.3,
        "fetch_head_s": 0.5,
        "fetch_idle_s": 0.4,
        "fetch_total_s": 1.0,
        "fetch_rate_grace_s": 0.2,
        "fetch_header_bytes": 4096,
        "fetch_headers": 32,
        "fetch_interim": 3,
        "fetch_framing_bytes": 2048,
    }
)
AUTHORITY = trustme.CA()
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\n\r\n"
TRY_LATER, NEVER = FetchUnavailable, FetchError


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(LIMITS, extra_anchors=AUTHORITY.cert_pem.bytes().decode()) as started:
        yield started


def server_context() -> ssl.SSLContext:
    """A server's context with a certificate that the fetcher takes."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def fetch(fetcher: Fetcher, url: str) -> tuple[AcquisitionRecord, bytes]:
    """The record, and what is in the file."""
    with tempfile.TemporaryFile() as file:
        record = await fetcher.fetch(url, policy=LOOPBACK, max_bytes=MAX_BYTES, into=file.fileno())
        return record, file.read()


async def end_of(fetcher: Fetcher, url: str) -> tuple[type[EvidenceError], str]:
    """The error that the fetch ended with, by class and rule."""
    record, _ = await fetch(fetcher, url)
    assert record.failure is not None
    return type(record.failure.to_error()), record.failure.rule


@pytest.mark.parametrize(
    ("turn", "error", "rule"),
    [
        pytest.param(pour(b"", HINT), NEVER, "interim-count", id="a flood of 103"),
        pytest.param(say((HINT[:-2] + b"X: " + b"y" * 2000 + b"\r\n\r\n") * 3), NEVER, "header-bytes", id="fat 103"),
        pytest.param(say(b"HTTP/1.1 101 Up\r\nUpgrade: h2c\r\n\r\n"), NEVER, "http-protocol", id="101 unasked"),
        pytest.param(pour(b"", b"HTTP/1.1 200"[:1], 0.1), NEVER, "http-protocol", id="a status line of one letter"),
        pytest.param(pour(OK, b"X: y\r\n", 0.05), TRY_LATER, "head-deadline", id="dripping headers"),
        pytest.param(pour(HINT, b"H", 0.6), TRY_LATER, "idle-timeout", id="a hint, then silence"),
        pytest.param(pour(OK + b"X: ", b"y" * 100), NEVER, "header-bytes", id="a header line without end"),
        pytest.param(pour(OK, b"X: y\r\n"), NEVER, "header-bytes", id="headers without end"),
        pytest.param(say(OK + b"X: y\r\n" * 33 + b"\r\n"), NEVER, "header-count", id="too many headers"),
        pytest.param(say(b"HTTP/1.1 200 OK\nA: b\n\nx"), NEVER, "head-line-end", id="bare line feeds"),
        pytest.param(say(OK + b"A: b\r\n c\r\n\r\nx"), NEVER, "head-folded", id="a folded header"),
        pytest.param(say(OK + b"A b\r\n\r\n"), NEVER, "http-protocol", id="a header without a colon"),
        pytest.param(say(OK + b"A : b\r\n\r\n"), NEVER, "http-protocol", id="a space before the colon"),
        pytest.param(say(OK + b"A: \0\r\n\r\n"), NEVER, "http-protocol", id="a NUL in a header"),
        pytest.param(say(b"<html>hello</html>"), NEVER, "http-protocol", id="HTTP/0.9"),
        pytest.param(say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), NEVER, "http-protocol", id="HTTP/2 preface"),
        pytest.param(say(b"\0\0\x12\4\0\0\0\0\0"), NEVER, "http-protocol", id="HTTP/2 frame"),
        pytest.param(say(b"HTTP/2.0 200 OK\r\n\r\n"), NEVER, "http-protocol", id="HTTP/2.0 in a status line"),
        pytest.param(say(b"HTTP/1.1 20 OK\r\n\r\n"), NEVER, "http-protocol", id="a status of two digits"),
        pytest.param(say(b"HTTP/1.1 099 Odd\r\n\r\n"), NEVER, "http-protocol", id="a status below 100"),
        pytest.param(say(b"HTTP/1.1 200 OK"), TRY_LATER, "connection-lost", id="a head that ends early"),
        pytest.param(pour(CHUNKED + b"1;", b"e" * 100), NEVER, "framing-bytes", id="a chunk extension without end"),
        pytest.param(
            pour(CHUNKED, b"1;" + b"e" * 1000 + b"\r\nx\r\n"), NEVER, "framing-bytes", id="extensions of every chunk"
        ),
        pytest.param(pour(CHUNKED, b"1\r\nx\r\n"), NEVER, "framing-bytes", id="chunks of one byte"),
        pytest.param(pour(CHUNKED + b"0\r\n", b"T: x\r\n"), NEVER, "framing-bytes", id="trailers without end"),
        pytest.param(pour(CHUNKED + b"0\r\n", b"T: x\r\n", 0.05), TRY_LATER, "minimum-rate", id="dripping trailers"),
        pytest.param(pour(CHUNKED + b"5;", b"e", 0.05), TRY_LATER, "minimum-rate", id="a dripping extension"),
        pytest.param(say(CHUNKED + b"zz\r\nx"), NEVER, "http-protocol", id="a chunk size that is none"),
        pytest.param(say(CHUNKED + b"-1\r\nx"), NEVER, "http-protocol", id="a negative chunk size"),
        pytest.param(say(CHUNKED + b"5\r\nhelloX"), NEVER, "http-protocol", id="a chunk longer than it says"),
        pytest.param(say(CHUNKED + b"FFFFFFFFFF\r\nx"), TRY_LATER, "body-truncated", id="a chunk that never comes"),
        pytest.param(
            pour(CHUNKED + b"FFFFFFFFFF\r\n", b"x" * 999), NEVER, "body-over-limit", id="a chunk over the limit"
        ),
        pytest.param(
            say(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n"), NEVER, "http-protocol", id="another coding"
        ),
        pytest.param(
            say(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            NEVER,
            "framing-ambiguous",
            id="chunks in HTTP/1.0",
        ),
        pytest.param(say(OK + b"Content-Length: 1, 2\r\n\r\nab"), NEVER, "http-protocol", id="two lengths in one"),
        pytest.param(say(OK + b"Content-Length: +1\r\n\r\na"), NEVER, "http-protocol", id="a signed length"),
        pytest.param(
            say(OK + b"Content-Length: 99999999999999999999\r\n\r\n"), NEVER, "body-over-limit", id="a vast length"
        ),
        pytest.param(say(OK + b"Content-Length: 9\r\n\r\nx"), TRY_LATER, "body-truncated", id="a length too long"),
        pytest.param(say(b"HTTP/1.1 204 No\r\n\r\nbody"), NEVER, "http-status", id="a body after 204"),
        pytest.param(say(b"HTTP/1.1 304 No\r\n\r\nbody"), NEVER, "http-status", id="a body after 304"),
        pytest.param(
            say(b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-0/9\r\n\r\nx"), NEVER, "http-status", id="206 unasked"
        ),
        pytest.param(reset(), TRY_LATER, "connection-lost", id="reset at once"),
        pytest.param(reset(OK), TRY_LATER, "connection-lost", id="reset in the head"),
        pytest.param(reset(OK + b"\r\nx"), TRY_LATER, "connection-lost", id="reset in a body that ends by closing"),
        pytest.param(reset(CHUNKED + b"5\r\nhe"), TRY_LATER, "connection-lost", id="reset in a chunk"),
        pytest.param(silence, TRY_LATER, "idle-timeout", id="silence"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_step_8_hostile_bytes_end_by_their_rule(
    fetcher: Fetcher, turn: Turn, error: type[EvidenceError], rule: str
) -> None:
    """Each ends by the rule that is about it, within the total deadline, and the child survives it."""
    pid, started = fetcher.pid, time.monotonic()
    async with hostile(turn) as served:
        assert await end_of(fetcher, served.url) == (error, rule)
    assert fetcher.pid == pid
    assert time.monotonic() - started < LIMITS.fetch_total_s


@pytest.mark.parametrize(
    ("location", "rule"),
    [
        ("http://user@127.0.0.1/", "url-userinfo"),
        ("http://metadata.google.internal/", "host-reserved"),
        ("http://localhost/", "host-single-label"),
        ("//169.254.169.254/latest", "address-denied"),
        ("http:\\\\127.0.0.1/", "redirect-location-form"),
        ("gopher://127.0.0.1/", "scheme"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_step_7_a_redirect_goes_through_every_rule_again(fetcher: Fetcher, location: str, rule: str) -> None:
    """The redirect is refused by its rule, and the one hop that was is in the record."""
    async with hostile(say(f"HTTP/1.1 302 F\r\nLocation: {location}\r\n\r\n".encode())) as served:
        record, _ = await fetch(fetcher, served.url)
    assert record.failure is not None
    assert (record.failure.error, record.failure.rule) == (PolicyDenied.__name__, rule)
    assert [hop.status for hop in record.hops] == [302]


@pytest.mark.asyncio(loop_scope="module")
async def test_step_8_one_deadline_over_all_hops(fetcher: Fetcher) -> None:
    """Three redirects that are each in time are together too slow; all hops are in the record."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in (b"HTTP/1.1 302 Found\r\n", b"Location: /\r\n\r\n"):
            await asyncio.sleep(0.2)
            writer.write(piece)

    async with hostile(late) as served:
        record, _ = await fetch(fetcher, served.url)
    assert record.failure is not None
    assert record.failure.rule == "total-deadline"
    assert [hop.status for hop in record.hops] == [302, 302, None]
    assert record.hops[2].seconds > 0


@pytest.mark.parametrize(
    ("turn", "rule"),
    [
        pytest.param(silence, "tls-timeout", id="no answer to the handshake"),
        pytest.param(pour(b"", b""), "tls-timeout", id="an answer to another protocol's request"),
        pytest.param(reset(), "connection-lost", id="reset in the handshake"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_step_5_a_handshake_is_bounded(fetcher: Fetcher, turn: Turn, rule: str) -> None:
    """A server that does not come to a TLS session costs `fetch_tls_s`, not the whole deadline."""
    async with hostile(turn) as served:
        assert await end_of(fetcher, served.url.replace("http:", "https:")) == (TRY_LATER, rule)


@pytest.mark.asyncio(loop_scope="module")
async def test_step_5_plain_http_where_tls_should_be(fetcher: Fetcher) -> None:
    """What is no TLS record is refused for good."""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n")
        await reader.read()

    async with hostile(plain) as served:
        assert await end_of(fetcher, served.url.replace("http:", "https:")) == (NEVER, "tls-handshake")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.asyncio(loop_scope="module")
async def test_step_5_tls_below_1_2_is_refused(fetcher: Fetcher) -> None:
    """A server that speaks TLS 1.1 at most gets no request; the same server with 1.2 does, and the record says so."""
    old, newer = server_context(), server_context()
    for context, newest in ((old, ssl.TLSVersion.TLSv1_1), (newer, ssl.TLSVersion.TLSv1_2)):
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
    whole = say(OK + b"Content-Length: 1\r\n\r\nx")
    async with hostile(shake_hands(old)) as outdated, hostile(whole, context=newer) as served:
        assert await end_of(fetcher, outdated.url.replace("http:", "https:")) == (NEVER, "tls-handshake")
        record, body = await fetch(fetcher, served.url)
    assert (body, record.hops[0].tls and record.hops[0].tls.version) == (b"x", "TLSv1.2")
    assert tls_context().minimum_version is ssl.TLSVersion.TLSv1_2
    assert not tls_context().hostname_checks_common_name


@pytest.mark.asyncio(loop_scope="module")
async def test_step_8_a_cut_tls_connection_is_no_end(fetcher: Fetcher) -> None:
    """A body that ends by closing is whole under TLS only with close_notify (RFC 9112 section 9.8)."""
    start = OK + b"\r\npart"
    async with (
        hostile(hang_up_without_notice(start), context=server_context()) as cut,
        hostile(say(start), context=server_context()) as whole,
    ):
        assert await end_of(fetcher, cut.url) == (TRY_LATER, "connection-lost")
        record, body = await fetch(fetcher, whole.url)
    assert (body, record.hops[0].framing) == (b"part", "until-close")


@pytest.mark.asyncio(loop_scope="module")
async def test_equal_lengths_have_one_reading(fetcher: Fetcher) -> None:
    """Content-Length twice with one value is taken (RFC 9112 section 6.3)."""
    async with hostile(say(OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx")) as served:
        assert (await fetch(fetcher, served.url))[1] == b"x"
