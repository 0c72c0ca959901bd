"""One fetch inside the child: hops, headers and body, every bound checked while bytes arrive."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpcore

from contracts.digest import Digest, Hasher
from contracts.errors import FetchError, FetchUnavailable, PolicyDenied
from contracts.limits import Limits
from contracts.locator import redact_url
from contracts.network_policy import NetworkPolicy, check_redirect, check_url
from contracts.records import Hop, TlsFacts
from contracts.url_grammar import Target
from intake.children.fetch_network import VettingBackend

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_LATER = frozenset({408, 425, 429})
_CLIENT_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
_POOLS = 16  # policies in use at once; the least used one's connections are closed
_USER_AGENT = b"mosaic-evidence/0.1"
_ACCEPT = b"image/*, audio/*, video/*;q=0.9, */*;q=0.1"


@dataclass(frozen=True, slots=True)
class Body:
    """What was written into the descriptor, and how it was had."""

    size_bytes: int
    digest: Digest
    media_type: str | None


class Exchange:
    """Fetches for any number of policies; connections are kept per policy, so none is reused under another."""

    def __init__(self, limits: Limits, context: ssl.SSLContext) -> None:
        self._limits = limits
        self._context = context
        self._pools: OrderedDict[NetworkPolicy, httpcore.AsyncConnectionPool] = OrderedDict()

    async def fetch(self, policy: NetworkPolicy, url: str, max_bytes: int, into: int, hops: list[Hop]) -> Body:
        """Fetch `url` into the descriptor `into`; what is known of each hop is added to `hops`, also where it fails.

        Raises PolicyDenied, FetchError, FetchUnavailable.
        """
        try:
            async with asyncio.timeout(self._limits.fetch_total_s):
                return await self._follow(await self._pool(policy), policy, url, max_bytes, into, hops)
        except TimeoutError as error:
            reason = f"not complete within {self._limits.fetch_total_s:g} s"
            raise FetchUnavailable("total-deadline", reason) from error

    async def aclose(self) -> None:
        """Close every connection."""
        while self._pools:
            await self._pools.popitem()[1].aclose()

    async def _pool(self, policy: NetworkPolicy) -> httpcore.AsyncConnectionPool:
        if policy not in self._pools:
            self._pools[policy] = httpcore.AsyncConnectionPool(
                ssl_context=self._context,
                max_connections=None,  # the parent bounds how many fetches are in flight
                max_keepalive_connections=16,
                keepalive_expiry=5.0,
                http1=True,
                http2=False,
                retries=0,
                network_backend=VettingBackend(policy, self._limits),
            )
        self._pools.move_to_end(policy)
        if len(self._pools) > _POOLS:
            await self._pools.popitem(last=False)[1].aclose()
        return self._pools[policy]

    async def _follow(
        self,
        pool: httpcore.AsyncConnectionPool,
        policy: NetworkPolicy,
        url: str,
        max_bytes: int,
        into: int,
        hops: list[Hop],
    ) -> Body:
        target = check_url(policy, url)
        for _ in range(self._limits.fetch_redirects + 1):
            hop, started = Hop(redact_url(target.url), Digest.of(target.url.encode())), time.monotonic()
            hops.append(hop)
            async with self._respond(pool, target) as response:
                hops[-1] = _answered(hop, response, time.monotonic() - started)
                self._check_headers(response)
                if response.status in _REDIRECTS:
                    target = check_redirect(policy, target, _values(response, b"location"))
                    continue
                expected = _check_response(response, max_bytes)
                hasher = await self._receive(response, expected, max_bytes, into)
                return Body(hasher.size_bytes, hasher.digest(), _media_type(response))
        raise PolicyDenied("redirect-limit", f"expected at most {self._limits.fetch_redirects} redirects")

    @asynccontextmanager
    async def _respond(self, pool: httpcore.AsyncConnectionPool, target: Target) -> AsyncIterator[httpcore.Response]:
        response = await self._send(pool, target)
        try:
            yield response
        except _CLIENT_ERRORS as error:
            raise _translate(error, target, "body") from error
        finally:
            await response.aclose()

    async def _send(self, pool: httpcore.AsyncConnectionPool, target: Target) -> httpcore.Response:
        """Send the request and wait for the headers.

        A kept connection may have been closed by the server at the moment we used it; since GET is idempotent it is
        sent once more (RFC 9110 section 9.2.2).
        """
        try:
            try:
                return await pool.handle_async_request(self._request(target))
            except _CLIENT_ERRORS as error:
                if not _is_lost(error):
                    raise
            return await pool.handle_async_request(self._request(target))
        except _CLIENT_ERRORS as error:
            raise _translate(error, target, "headers") from error

    def _request(self, target: Target) -> httpcore.Request:
        url = httpcore.URL(target.url)
        scheme, host, path = target.scheme.encode(), target.host.encode(), target.path_and_query.encode()
        read = (url.scheme, url.host.strip(b"[]"), url.port or target.port, url.target)
        if read != (scheme, host, target.port, path):
            raise PolicyDenied("parser-disagreement", "the HTTP client reads another scheme, host, port or path")
        connect, idle = self._limits.fetch_connect_s, self._limits.fetch_idle_s
        return httpcore.Request(
            "GET",
            url,
            headers=[
                (b"Host", target.authority.encode()),
                (b"User-Agent", _USER_AGENT),
                (b"Accept", _ACCEPT),
                (b"Accept-Encoding", b"identity"),
            ],
            extensions={"timeout": {"connect": connect, "read": idle, "write": idle, "pool": idle}},
        )

    def _check_headers(self, response: httpcore.Response) -> None:
        count, size = len(response.headers), sum(len(name) + len(value) + 4 for name, value in response.headers)
        if count > self._limits.fetch_headers:
            raise FetchError("header-count", f"expected at most {self._limits.fetch_headers} headers, got {count}")
        if size > self._limits.fetch_header_bytes:
            raise FetchError("header-bytes", f"expected at most {self._limits.fetch_header_bytes} bytes, got {size}")

    async def _receive(self, response: httpcore.Response, expected: int | None, max_bytes: int, into: int) -> Hasher:
        hasher, started = Hasher(), time.monotonic()
        async for chunk in response.aiter_stream():
            if hasher.size_bytes + len(chunk) > max_bytes:
                raise FetchError("body-over-limit", f"expected at most {max_bytes} bytes, got more")
            _write(into, chunk, hasher.size_bytes)
            hasher.update(chunk)
            self._check_rate(hasher.size_bytes, time.monotonic() - started)
        if expected is not None and hasher.size_bytes != expected:
            raise FetchUnavailable("body-truncated", f"expected {expected} bytes, got {hasher.size_bytes}")
        return hasher

    def _check_rate(self, size_bytes: int, seconds: float) -> None:
        least = self._limits.fetch_rate_min_bytes_s
        if seconds > self._limits.fetch_rate_grace_s and size_bytes < least * seconds:
            raise FetchUnavailable("minimum-rate", f"expected {least} bytes/s, got {size_bytes} in {seconds:.1f} s")


def _check_response(response: httpcore.Response, max_bytes: int) -> int | None:
    """The length that the server promises, if any; raises for what is not a plain, whole answer."""
    status = response.status
    if status in _TRY_LATER or status >= 500:
        raise FetchUnavailable("http-status", f"expected 200, got {status}")
    if status != 200:
        raise FetchError("http-status", f"expected 200, got {status}")
    if any(value.strip().lower() not in (b"", b"identity") for value in _values(response, b"content-encoding")):
        raise FetchError("content-encoding", "expected the identity encoding that was asked for")
    lengths = _values(response, b"content-length")
    if lengths and _values(response, b"transfer-encoding"):
        raise FetchError("framing-ambiguous", "both Content-Length and Transfer-Encoding (RFC 9112 section 6.3)")
    if not lengths:
        return None
    expected = int(lengths[0])  # h11 has refused what is not one number
    if expected > max_bytes:
        raise FetchError("body-over-limit", f"expected at most {max_bytes} bytes, announced are {expected}")
    return expected


def _translate(error: Exception, target: Target, where: str) -> FetchError:
    refusal = _tls_refusal(error)
    if isinstance(refusal, ssl.SSLCertVerificationError):
        return FetchError("tls-certificate", f"{target.host}: {refusal.verify_message}")
    if refusal is not None:
        return FetchError("tls-handshake", f"{target.host}: {refusal.reason or 'failed'}")
    if isinstance(error, httpcore.ConnectTimeout):
        return FetchUnavailable("connect-timeout", f"{target.host}: no TLS session in time")
    if isinstance(error, httpcore.TimeoutException):
        return FetchUnavailable("idle-timeout", f"{target.host}: no byte of the {where} in time")
    if isinstance(error, httpcore.ProtocolError) and not _is_lost(error):
        if where == "body":
            return FetchUnavailable("body-truncated", f"{target.host}: the body broke off or is malformed")
        return FetchError("http-protocol", f"{target.host}: the response is not HTTP/1.1 within bounds")
    return FetchUnavailable("connection-lost", f"{target.host}: the connection was lost in the {where}")


def _tls_refusal(error: BaseException | None) -> ssl.SSLError | None:
    """The TLS error beneath the client's and the event library's own, if there is one."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _is_lost(error: Exception) -> bool:
    """Whether the server ended the connection instead of answering; httpcore says so only in words."""
    if isinstance(error, httpcore.RemoteProtocolError):
        return "disconnected without sending" in str(error)
    return isinstance(error, httpcore.ReadError | httpcore.WriteError)


def _answered(hop: Hop, response: httpcore.Response, seconds: float) -> Hop:
    stream = response.extensions["network_stream"]
    peer, tls = stream.get_extra_info("server_addr"), stream.get_extra_info("ssl_object")
    return replace(
        hop,
        status=response.status,
        vetted=stream.get_extra_info("vetted"),
        dialled=peer[0] if peer else None,
        tls=None if tls is None else _tls_facts(tls),
        seconds=seconds,
    )


def _tls_facts(tls: ssl.SSLObject) -> TlsFacts:
    cipher = tls.cipher()
    certificate = tls.getpeercert(binary_form=True)
    return TlsFacts(tls.version() or "unknown", cipher[0] if cipher else "unknown", Digest.of(certificate or b""))


def _values(response: httpcore.Response, name: bytes) -> list[bytes]:
    return [value for key, value in response.headers if key.lower() == name]


def _media_type(response: httpcore.Response) -> str | None:
    values = _values(response, b"content-type")
    essence = values[0].split(b";", 1)[0].strip().lower() if values else b""
    return essence.decode("ascii", "replace")[:100] or None


def _write(into: int, chunk: bytes, offset: int) -> None:
    view = memoryview(chunk)
    try:
        while view:
            written = os.pwrite(into, view, offset)
            view, offset = view[written:], offset + written
    except OSError as error:
        raise FetchUnavailable("quarantine-write", f"cannot write (errno {error.errno})") from error
