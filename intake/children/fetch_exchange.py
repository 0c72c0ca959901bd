"""One fetch inside the child: hop after hop by the policy, a body into a descriptor, all under one deadline.

The numbered steps are those of docs/threat-model.md, "A fetch, hop by hop".
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass

from contracts.digest import Digest, Hasher
from contracts.errors import FetchError, FetchUnavailable, PolicyDenied
from contracts.http_facts import retry_after_s
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy, check_redirect, check_url
from contracts.url_grammar import Target
from contracts.version import VERSION
from intake.children.fetch_connection import Connection, Head
from intake.children.fetch_hops import HopLog
from intake.children.fetch_kept import KeptConnections
from intake.children.fetch_network import Connector

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_LATER = frozenset({408, 425, 429})
_SAY_WHEN = frozenset({429, 503})  # whose Retry-After is about asking again
_HEADERS = (
    (b"User-Agent", f"mosaic-evidence/{VERSION}".encode()),
    (b"Accept", b"image/*, audio/*, video/*;q=0.9, */*;q=0.1"),
    (b"Accept-Encoding", b"identity"),
)
"""Everything that is sent beside Host (step 6)."""


@dataclass(frozen=True, slots=True)
class Body:
    """What was written into the descriptor, and how it was had."""

    size_bytes: int
    digest: Digest
    media_type: str | None


class Exchange:
    """Fetches for any number of policies at once."""

    def __init__(self, limits: Limits, connector: Connector) -> None:
        self._limits = limits
        self._connector = connector
        self._kept = KeptConnections()

    async def fetch(self, policy: NetworkPolicy, url: str, max_bytes: int, into: int, hops: list[HopLog]) -> Body:
        """Fetch `url` into the descriptor `into`; what is known of each hop is added to `hops`, also where it fails.

        Raises PolicyDenied, FetchError, FetchUnavailable.
        """
        try:
            async with asyncio.timeout(self._limits.fetch_total_s):
                return await self._follow(policy, check_url(policy, url), max_bytes, into, hops)
        except TimeoutError as error:
            reason = f"not complete within {self._limits.fetch_total_s:g} s"
            raise FetchUnavailable("total-deadline", reason) from error
        finally:
            for hop in hops[-1:]:
                hop.ended()

    async def _follow(
        self, policy: NetworkPolicy, target: Target, max_bytes: int, into: int, hops: list[HopLog]
    ) -> Body:
        for _ in range(self._limits.fetch_redirects + 1):
            log = HopLog(target, with_query=policy.record_queries)
            hops.append(log)
            connection, head = await self._ask(policy, target, log)
            try:
                if head.status not in _REDIRECTS:
                    body = await self._body(connection, head, log, max_bytes, into)
                    self._kept.put(policy, target, connection, head)
                    return body
                there = check_redirect(policy, target, head.values(b"location"))
                self._kept.put(policy, target, connection, head)
                target = there
            except BaseException:
                connection.abort()
                raise
        raise PolicyDenied("redirect-limit", f"expected at most {self._limits.fetch_redirects} redirects")

    async def _ask(self, policy: NetworkPolicy, target: Target, log: HopLog) -> tuple[Connection, Head]:
        """Send the request on a kept connection or a new one, and wait for the head.

        A kept connection may have been closed by the server at the moment we used it; since GET is idempotent it is
        sent once more, on a new one (RFC 9110 §9.2.2).
        """
        kept = self._kept.take(policy, target)
        if kept is not None:
            try:
                log.reused(kept.log)
                return kept, await self._head(kept, target, log)
            except FetchUnavailable as error:
                if error.rule != "connection-lost" or kept.has_answered:
                    raise
                log.renewed()
        connection = Connection(await self._connector.connect(policy, target, log), self._limits, log)
        return connection, await self._head(connection, target, log)

    async def _head(self, connection: Connection, target: Target, log: HopLog) -> Head:
        try:
            head = await connection.ask(target.path_and_query, [(b"Host", target.authority.encode()), *_HEADERS])
        except BaseException:
            connection.abort()
            raise
        log.answered(head.status, head.headers, head.framing)
        return head

    async def _body(self, connection: Connection, head: Head, log: HopLog, max_bytes: int, into: int) -> Body:
        if head.status in _SAY_WHEN and len(said := head.values(b"retry-after")) == 1:
            log.retry_after_s = retry_after_s(said[0], time.time())
        expected = _check_head(head, max_bytes)
        sink = _Sink(self._limits, max_bytes, into)
        await connection.pour(head, sink.take)
        if expected is not None and sink.hasher.size_bytes != expected:
            raise FetchUnavailable("body-truncated", f"expected {expected} bytes, got {sink.hasher.size_bytes}")
        return Body(sink.hasher.size_bytes, sink.hasher.digest(), _media_type(head))


class _Sink:
    """Where a body goes: the descriptor, within the bounds on its size and its pace."""

    def __init__(self, limits: Limits, max_bytes: int, into: int) -> None:
        self.hasher = Hasher()
        self._limits = limits
        self._max_bytes = max_bytes
        self._into = into
        self._started = time.monotonic()

    def take(self, piece: memoryview) -> None:
        """Write and hash the next bytes. Raises FetchError or FetchUnavailable."""
        if self.hasher.size_bytes + len(piece) > self._max_bytes:
            raise FetchError("body-over-limit", f"expected at most {self._max_bytes} bytes, got more")
        _write(self._into, piece, self.hasher.size_bytes)
        self.hasher.update(piece)
        self._check_rate(self.hasher.size_bytes, time.monotonic() - self._started)

    def _check_rate(self, size_bytes: int, seconds: float) -> None:
        least = self._limits.fetch_rate_min_bytes_s
        if seconds > self._limits.fetch_rate_grace_s and size_bytes < least * seconds:
            raise FetchUnavailable("minimum-rate", f"expected {least} bytes/s, got {size_bytes} in {seconds:.1f} s")


def _check_head(head: Head, max_bytes: int) -> int | None:
    """The length that the server promises, if any; raises for what is not a plain, whole answer (206 among it)."""
    status = head.status
    if status in _TRY_LATER or status >= 500:
        raise FetchUnavailable("http-status", f"expected 200, got {status}")
    if status != 200:
        raise FetchError("http-status", f"expected 200, got {status}")
    if any(value.strip().lower() not in (b"", b"identity") for value in head.values(b"content-encoding")):
        raise FetchError("content-encoding", "expected the identity encoding that was asked for")
    lengths = head.values(b"content-length")
    if not lengths:
        return None
    expected = int(lengths[0])  # h11 has refused what is not one number
    if expected > max_bytes:
        raise FetchError("body-over-limit", f"expected at most {max_bytes} bytes, announced are {expected}")
    return expected


def _media_type(head: Head) -> str | None:
    values = head.values(b"content-type")
    essence = values[0].split(b";", 1)[0].strip().lower() if values else b""
    return essence.decode("ascii", "replace")[:100] or None


def _write(into: int, piece: memoryview, offset: int) -> None:
    try:
        while piece:
            written = os.pwrite(into, piece, offset)
            piece, offset = piece[written:], offset + written
    except OSError as error:
        raise FetchUnavailable("quarantine-write", f"cannot write (errno {error.errno})") from error
