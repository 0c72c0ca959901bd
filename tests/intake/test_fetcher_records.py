"""A fetch's record is whole, had or not: what was learned until the end is in it, and no query is."""

from __future__ import annotations

import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version

import pytest
import pytest_asyncio
import trustme

from contracts.digest import Digest
from contracts.errors import NeedMissing, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_WEB, NetworkPolicy
from contracts.records import AcquisitionRecord
from contracts.url_grammar import Target
from intake.children.fetch_hops import HopLog
from intake.children.fetch_names import Names
from intake.children.fetch_network import Connector, tls_context
from intake.fetcher import Fetcher
from tests.intake.hostile_origin import hostile, say

LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
AUTHORITY = trustme.CA()
OK = b"HTTP/1.1 200 OK\r\n"
ONE = OK + b"Content-Length: 1\r\n\r\nx"
MOVED = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(extra_anchors=AUTHORITY.cert_pem.bytes().decode()) as started:
        yield started


async def fetch(fetcher: Fetcher, url: str, policy: NetworkPolicy = LOOPBACK) -> AcquisitionRecord:
    """The record of a fetch of at most 100 bytes."""
    with tempfile.TemporaryFile() as file:
        return await fetcher.fetch(url, policy=policy, max_bytes=100, into=file.fileno())


@pytest.mark.asyncio(loop_scope="module")
async def test_a_hop_has_headers_framing_tls_and_times(fetcher: Fetcher) -> None:
    """Those headers that are recorded, in order; the certificate by the digest of its DER form; times that ascend."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued = AUTHORITY.issue_cert("127.0.0.1")
    issued.configure_cert(context)
    head = OK + b'ETag: "a"\r\nSet-Cookie: secret\r\nServer: s\r\nTransfer-Encoding: chunked\r\n\r\n'
    async with hostile(say(head + b"1\r\nx\r\n0\r\n\r\n"), context=context) as served:
        record = await fetch(fetcher, served.url)
    (hop,) = record.hops
    assert (hop.headers, hop.framing) == ((("etag", '"a"'), ("server", "s")), "chunked")
    assert (hop.answers, hop.vetted, hop.dialled) == (("127.0.0.1",), ("127.0.0.1",), "127.0.0.1")
    assert hop.tls is not None
    pem = issued.cert_chain_pems[0].bytes().decode()
    assert hop.tls.certificate == Digest.of(ssl.PEM_cert_to_DER_cert(pem))
    assert hop.tls.cipher.startswith("TLS_")
    assert hop.resolved_s is not None
    assert hop.connected_s is not None
    assert hop.tls_s is not None
    assert 0 <= hop.resolved_s <= hop.connected_s <= hop.tls_s <= hop.seconds <= record.seconds


@pytest.mark.asyncio(loop_scope="module")
async def test_a_url_that_is_refused_has_a_record(fetcher: Fetcher) -> None:
    """Without a hop, without userinfo and query, with the digest of all of it, and with the names of what fetched."""
    record = await fetch(fetcher, "http://user@example.org/?secret", PUBLIC_WEB)
    assert record.failure is not None
    assert (record.failure.error, record.failure.rule, record.hops) == ("PolicyDenied", "url-userinfo", ())
    assert record.requested == "http://example.org/"
    assert record.requested_digest == Digest.of(b"http://user@example.org/?secret")
    assert record.fetcher is not None
    assert [each.split("/")[0] for each in record.fetcher.split(" ")] == ["mosaic-evidence", "h11", "openssl"]
    assert f"h11/{version('h11')}" in record.fetcher


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_redirect_leaves_the_hop_that_was(fetcher: Fetcher) -> None:
    """Status, location without its query, addresses: all of the hop that was answered, and no second one."""
    answer = MOVED + b"Location: http://169.254.169.254/latest?token=x\r\n\r\n"
    async with hostile(say(answer)) as served:
        record = await fetch(fetcher, f"{served.url}a?secret=y")
    (hop,) = record.hops
    assert record.failure is not None
    assert record.failure.rule == "address-denied"
    assert (hop.url, hop.status, hop.dialled) == (f"{served.url}a", 302, "127.0.0.1")
    assert hop.url_digest == Digest.of(f"{served.url}a?secret=y".encode())
    assert ("location", "http://169.254.169.254/latest") in hop.headers
    for hidden in ("secret", "token"):
        assert hidden not in json.dumps(record.to_json())


@pytest.mark.asyncio(loop_scope="module")
async def test_a_policy_that_records_queries(fetcher: Fetcher) -> None:
    """Then the record shows them, and its digest of the URL is the same."""
    policy = replace(LOOPBACK, record_queries=True)
    async with hostile(say(MOVED + b"Location: /b?c=d\r\n\r\n", ONE)) as served:
        record = await fetch(fetcher, f"{served.url}a?secret=y", policy)
    assert record.requested == f"{served.url}a?secret=y"
    assert [hop.url for hop in record.hops] == [f"{served.url}a?secret=y", f"{served.url}b?c=d"]
    assert ("location", "/b?c=d") in record.hops[0].headers


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        ("503 Busy", "7", 7.0),
        ("429 Slow", "0", 0.0),
        ("429 Slow", "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("503 Busy", "99999999", None),
        ("503 Busy", "soon", None),
        ("503 Busy", "7\r\nRetry-After: 8", None),
        ("500 Broken", "7", None),
        ("404 None", "7", None),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_when_to_ask_again_is_in_the_failure(
    fetcher: Fetcher, status: str, header: str, seconds: float | None
) -> None:
    """What 429 and 503 say, within bounds and once; nothing of other answers."""
    head = f"HTTP/1.1 {status}\r\nRetry-After: {header}\r\nContent-Length: 0\r\n\r\n"
    async with hostile(say(head.encode())) as served:
        record = await fetch(fetcher, served.url)
    assert record.failure is not None
    assert (record.failure.rule, record.failure.retry_after_s) == ("http-status", seconds)


@pytest.mark.asyncio(loop_scope="module")
async def test_who_did_not_accept_is_in_the_record(fetcher: Fetcher) -> None:
    """A connection that failed has its addresses, and nothing that came after."""
    async with hostile(say()) as served:
        url = served.url
    (hop,) = (await fetch(fetcher, url)).hops
    assert (hop.vetted, hop.dialled, hop.status, hop.connected_s) == (("127.0.0.1",), "127.0.0.1", None, None)
    assert hop.resolved_s is not None
    assert hop.seconds >= hop.resolved_s


async def test_step_3_refused_addresses_are_noted() -> None:
    """What a name resolved to is in the hop although none of it was vetted, dialled or kept back from the reader."""
    log = HopLog(target := Target("http", "localhost", 80, "/"), with_query=False)
    with ThreadPoolExecutor(1) as threads:
        connector = Connector(Limits(), tls_context(), Names(threads))
        with pytest.raises(PolicyDenied):
            await connector.connect(PUBLIC_WEB, target, log)
    hop = log.to_hop()
    assert set(hop.answers) <= {"127.0.0.1", "::1"}
    assert hop.answers
    assert (hop.vetted, hop.dialled) == ((), None)


@pytest.mark.asyncio(loop_scope="module")
async def test_every_use_of_an_unsafe_policy_is_logged(fetcher: Fetcher, caplog: pytest.LogCaptureFixture) -> None:
    """One warning a fetch with policy and host, without path and query; none for a policy that is safe."""
    with caplog.at_level(logging.WARNING, logger="intake.fetcher"):
        async with hostile(say(ONE), say(ONE)) as served:
            await fetch(fetcher, f"{served.url}path?secret")
            await fetch(fetcher, f"{served.url}path?secret")
            await fetch(fetcher, "http://\x1b[31m/?secret")
            await fetch(fetcher, served.url, PUBLIC_WEB)
    assert [record.message for record in caplog.records] == [
        "network policy test-unsafe-loopback is in use: a fetch from 127.0.0.1",
        "network policy test-unsafe-loopback is in use: a fetch from 127.0.0.1",
    ]


async def test_hops_that_no_packet_holds_end_the_fetch_by_a_rule() -> None:
    """Under wide limits a server may send us on by so many long ways that no report fits; none is waited for then."""
    away = say(MOVED + b"Location: /" + b'"' * 3_900 + b"\r\nConnection: close\r\n\r\n")
    async with Fetcher(Limits().changed({"fetch_redirects": 12})) as wide, hostile(away) as served:
        record = await fetch(wide, served.url)
    assert record.failure is not None
    assert (record.failure.rule, record.hops) == ("record-over-limit", ())


@pytest.mark.parametrize(("name", "most"), [("fetch_redirects", 31), ("dns_answers", 64)])
async def test_limits_that_no_report_can_tell_of_are_refused(name: str, most: int) -> None:
    """At the start, not at the first server that makes use of them."""
    async with Fetcher(Limits().changed({name: most})):
        pass
    with pytest.raises(NeedMissing, match="limits-fetcher"):
        async with Fetcher(Limits().changed({name: most + 1})):
            pass
