"""How the fetcher reaches a host: resolve once, vet every answer, dial what was vetted, check who answered, TLS.

Steps 3 to 5 of docs/threat-model.md. Addresses are dialled, and the host's name goes only into SNI, certificate check
and Host header, so nothing is resolved a second time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

import certifi

from contracts.digest import Digest
from contracts.errors import FetchError, FetchUnavailable, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy, check_addresses
from contracts.records import TlsFacts
from contracts.url_grammar import Target
from intake.children.fetch_hops import HopLog
from intake.children.fetch_names import Names
from intake.children.fetch_wire import Wire


def tls_context(extra_anchors: str | None = None) -> ssl.SSLContext:
    """The one TLS context: 1.2 or newer, names and chains verified against certifi's anchors, HTTP/1.1.

    It costs 85 ms to build, so it is built once. `extra_anchors` are PEM certificates trusted beside them.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.hostname_checks_common_name = False  # RFC 9525 section 2: the subject's common name is no identity
    context.set_alpn_protocols(["http/1.1"])
    if extra_anchors is not None:
        context.load_verify_locations(cadata=extra_anchors)
    return context


class Connector:
    """Makes connections for any policy. Raises PolicyDenied, FetchError or FetchUnavailable."""

    def __init__(self, limits: Limits, context: ssl.SSLContext, names: Names) -> None:
        self._limits = limits
        self._context = context
        self._names = names

    async def connect(self, policy: NetworkPolicy, target: Target, log: HopLog) -> Wire:
        """A connection to `target`, over TLS for https; what is learned on the way is noted in `log`."""
        return await self._open(await self._reach(policy, target, log), target, log)

    async def _reach(self, policy: NetworkPolicy, target: Target, log: HopLog) -> socket.socket:
        """Steps 3 and 4, within `fetch_connect_s`."""
        try:
            async with asyncio.timeout(self._limits.fetch_connect_s) as whole:
                known = target.literal
                answers = [known] if known else await self._names.resolve(target.host, target.port)
                log.resolved(answers)
                log.vetted = check_addresses(policy, target.host, answers, max_answers=self._limits.dns_answers)
                deadline = whole.when()
                assert deadline is not None  # noqa: S101  (we gave it one)
                return await self._dial(policy, target, log, deadline)
        except TimeoutError as error:
            reason = f"{target.host}: not connected within {self._limits.fetch_connect_s:g} s, resolution included"
            raise FetchUnavailable("connect-timeout", reason) from error

    async def _dial(self, policy: NetworkPolicy, target: Target, log: HopLog, deadline: float) -> socket.socket:
        """Try the vetted addresses in order. A dead one leaves time for the others: each has its share of the rest."""
        now, last = asyncio.get_running_loop().time, None
        for left, address in zip(range(len(log.vetted), 0, -1), log.vetted, strict=True):
            log.dialled = address
            try:
                async with asyncio.timeout_at(deadline if left == 1 else now() + (deadline - now()) / left):
                    connected = await _connect(address, target.port)
            except OSError as error:  # TimeoutError is one
                if isinstance(error, TimeoutError) and left == 1:
                    raise
                last = error
                continue
            _check_peer(policy, address, connected)
            log.connected()
            return connected
        raise FetchUnavailable("connect", f"none of {len(log.vetted)} addresses accepts a connection") from last

    async def _open(self, connected: socket.socket, target: Target, log: HopLog) -> Wire:
        """Step 5, within `fetch_tls_s`. asyncio owns the socket from here on, and closes it where this fails."""
        loop = asyncio.get_running_loop()
        if target.scheme != "https":
            return (await loop.create_connection(Wire, sock=connected))[1]
        try:
            async with asyncio.timeout(self._limits.fetch_tls_s):
                transport, wire = await loop.create_connection(
                    Wire, sock=connected, ssl=self._context, server_hostname=target.host
                )
        except ssl.SSLCertVerificationError as error:
            raise FetchError("tls-certificate", f"{target.host}: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise FetchError("tls-handshake", f"{target.host}: {error.reason or 'failed'}") from error
        except TimeoutError as error:
            reason = f"{target.host}: no TLS session within {self._limits.fetch_tls_s:g} s"
            raise FetchUnavailable("tls-timeout", reason) from error
        except OSError as error:
            raise FetchUnavailable("connection-lost", f"{target.host}: the connection was lost in the handshake") from (
                error
            )
        log.secured(_tls_facts(transport.get_extra_info("ssl_object")))
        return wire


async def _connect(address: str, port: int) -> socket.socket:
    end = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(end, (address, port))
    except BaseException:
        end.close()
        raise
    return end


def _check_peer(policy: NetworkPolicy, address: str, connected: socket.socket) -> None:
    try:
        if check_addresses(policy, address, [connected.getpeername()[0]]) != (address,):
            raise PolicyDenied("peer-address", f"dialled {address}, another address answered")
    except OSError as error:
        connected.close()
        raise FetchUnavailable("connection-lost", f"{address} hung up at once") from error
    except PolicyDenied:
        connected.close()
        raise


def _tls_facts(tls: ssl.SSLObject) -> TlsFacts:
    cipher = tls.cipher()
    certificate = tls.getpeercert(binary_form=True)
    return TlsFacts(tls.version() or "unknown", cipher[0] if cipher else "unknown", Digest.of(certificate or b""))
