"""How the fetcher reaches a host: resolve once, vet every answer, dial what was vetted, check who answered.

httpcore gives the host name to the backend and keeps it for pool key, Host header, SNI and certificate, so the
vetted address is dialled without rewriting the URL and a kept connection never crosses hosts.
"""
# ruff: noqa: ASYNC109, ARG002  (the signatures are httpcore's)

from __future__ import annotations

import asyncio
import socket
import ssl
import typing
from collections.abc import Iterable

import certifi
import httpcore

from contracts.errors import FetchError, FetchUnavailable, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy, check_addresses

_TRY_AGAIN = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM, socket.EAI_MEMORY})


def tls_context(extra_anchors: str | None = None) -> ssl.SSLContext:
    """The one TLS context: 1.2 or newer, names and chains verified against certifi's anchors, HTTP/1.1.

    It costs 85 ms to build, so it is built once. `extra_anchors` are PEM certificates trusted beside them.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if extra_anchors is not None:
        context.load_verify_locations(cadata=extra_anchors)
    return context


class VettedStream(httpcore.AsyncNetworkStream):
    """A connection that remembers which addresses were vetted for it (`get_extra_info("vetted")`)."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, vetted: tuple[str, ...]) -> None:
        self._inner = inner
        self._vetted = vetted

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return VettedStream(inner, self._vetted)

    def get_extra_info(self, info: str) -> typing.Any:
        return self._vetted if info == "vetted" else self._inner.get_extra_info(info)


class VettingBackend(httpcore.AsyncNetworkBackend):
    """Connects for one policy. Raises PolicyDenied, FetchError or FetchUnavailable beside httpcore's own errors."""

    def __init__(self, policy: NetworkPolicy, limits: Limits) -> None:
        self._policy = policy
        self._limits = limits
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(self._limits.fetch_connect_s):
                answers = await _resolve(host, port)
                vetted = check_addresses(self._policy, host, answers, max_answers=self._limits.dns_answers)
                return VettedStream(await self._dial(vetted, port, timeout), vetted)
        except TimeoutError as error:
            reason = f"{host}: not connected within {self._limits.fetch_connect_s:g} s, name resolution included"
            raise FetchUnavailable("connect-timeout", reason) from error

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise PolicyDenied("unix-socket", "a fetch never goes to a local socket")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _dial(
        self,
        vetted: tuple[str, ...],
        port: int,
        timeout: float | None,
    ) -> httpcore.AsyncNetworkStream:
        last: Exception | None = None
        for address in vetted:
            try:
                stream = await self._inner.connect_tcp(address, port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
                continue
            peer = stream.get_extra_info("server_addr")
            if peer is None or check_addresses(self._policy, address, [peer[0]]) != (address,):
                await stream.aclose()
                raise PolicyDenied("peer-address", f"dialled {address}, another address answered")
            return stream
        raise FetchUnavailable("connect", f"none of {len(vetted)} addresses accepts a connection") from last


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _TRY_AGAIN:
            raise FetchUnavailable("dns-unavailable", f"{host}: name resolution failed ({error.errno})") from error
        raise FetchError("dns-no-answer", f"{host} has no address") from error
    return [str(entry[4][0]) for entry in found]
