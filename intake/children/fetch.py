"""The fetcher: a confined, long-lived child that holds the network and nothing else.

It starts with one Configure packet, confines itself, says Ready, and then fetches what it is told into the
descriptors it is given, many at a time. It ends with its channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401  (getaddrinfo imports it at its first call, when files are out of reach)
import os
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from contracts.errors import ChildFailed, EvidenceError, FetchError, InputError, NeedMissing
from contracts.limits import MIB, Limits
from contracts.network_policy import PUBLIC_WEB, NetworkPolicy, check_url
from intake.children.fetch_exchange import Exchange
from intake.children.fetch_hops import HopLog
from intake.children.fetch_names import STACK_BYTES, THREADS, Names
from intake.children.fetch_network import Connector, tls_context
from intake.frames import (
    MOST_ANSWERS,
    MOST_HOPS,
    OPEN_FILES,
    Cancel,
    Configure,
    Done,
    Failed,
    Fetch,
    HopFrame,
    PacketChannel,
    Policy,
    Ready,
    Unfit,
    read_memory_file,
    read_order,
)
from sandbox.confine import confine, fetcher

MEMORY_BYTES = 1024 * MIB  # address space over the baseline: resolver threads' stacks and arenas, 0.5 MiB a connection


def main(channel: socket.socket, arguments: list[str]) -> None:
    """Serve the channel until it ends."""
    if arguments:
        raise SystemExit(f"expected no arguments, got {len(arguments)}")
    asyncio.run(_serve(PacketChannel(channel)))


async def _serve(channel: PacketChannel) -> None:
    packet, descriptors = await channel.receive()
    configuration = read_order(packet)
    if not isinstance(configuration, Configure) or not descriptors:
        raise SystemExit("expected a Configure packet with a descriptor first")
    try:
        exchange, layers = prepare(configuration, read_memory_file(descriptors[0]).decode())
    except EvidenceError as error:
        await channel.send(Unfit(error.rule, error.reason[:2048]))
        raise SystemExit(str(error)) from error
    except OSError as error:
        await channel.send(Unfit("fetcher-start", f"{type(error).__name__} (errno {error.errno})"))
        raise
    await channel.send(Ready(list(layers)))
    await _Service(channel, exchange).run()


def prepare(configuration: Configure, extra_anchors: str) -> tuple[Exchange, tuple[str, ...]]:
    """Load all that is needed, then confine. Raises InputError or NeedMissing."""
    limits = Limits().changed(configuration.limits)
    if limits.fetch_redirects >= MOST_HOPS or limits.dns_answers > MOST_ANSWERS:
        reason = f"expected limits of at most {MOST_HOPS - 1} redirects and {MOST_ANSWERS} answers of a name"
        raise InputError("limits-fetcher", reason)
    try:
        context = tls_context(extra_anchors or None)
    except ssl.SSLError as error:
        raise NeedMissing("trust-anchors", f"the trust anchors cannot be read: {error.reason or 'no PEM'}") from error
    _load_what_loads_late()
    largest = max(limits.image_bytes, limits.audio_bytes, limits.video_bytes)
    rights = fetcher(MEMORY_BYTES, file_bytes=largest, open_files=OPEN_FILES, unsafe=configuration.unsafe)
    layers = confine(rights)
    threading.stack_size(STACK_BYTES)
    names = Names(ThreadPoolExecutor(THREADS, thread_name_prefix="names"))
    return Exchange(limits, Connector(limits, context, names)), layers


def _load_what_loads_late() -> None:
    """The resolver's modules and a codec are loaded at first use, when the confinement has put files out of reach."""
    socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    check_url(PUBLIC_WEB, "http://b\u00fccher.example.com/")


class _Service:
    """The fetches in flight."""

    def __init__(self, channel: PacketChannel, exchange: Exchange) -> None:
        self._channel = channel
        self._exchange = exchange
        self._policies: dict[int, NetworkPolicy] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            packet, descriptors = await self._channel.receive()
            if not packet:
                os._exit(0)  # the parent is gone: no resolver thread may hold us back
            order = read_order(packet)
            if isinstance(order, Fetch):
                (into,) = descriptors
                policy = self._policies[order.policy]  # as it is now: the number may mean another one later
                self._tasks[order.id] = task = asyncio.create_task(self._fetch(order, policy, into))
                task.add_done_callback(partial(self._ended, order.id, into))
            elif isinstance(order, Policy):
                (document,) = descriptors
                self._policies[order.number] = NetworkPolicy.from_json(msgspec.json.decode(read_memory_file(document)))
            elif isinstance(order, Cancel) and order.id in self._tasks:
                self._tasks[order.id].cancel()

    def _ended(self, order: int, into: int, _: asyncio.Task[None]) -> None:
        """Also of a fetch that was cancelled before its first step, which no code of its own sees."""
        os.close(into)
        del self._tasks[order]

    async def _fetch(self, order: Fetch, policy: NetworkPolicy, into: int) -> None:
        report = await self._report(order, policy, into)
        with contextlib.suppress(OSError):  # the parent is gone, which `run` sees too
            await self._send(report)

    async def _send(self, report: Done | Failed) -> None:
        for form in _forms(report):
            with contextlib.suppress(ChildFailed):  # it does not fit into a packet
                await self._channel.send(form)
                return

    async def _report(self, order: Fetch, policy: NetworkPolicy, into: int) -> Done | Failed:
        hops = list[HopLog]()
        try:
            body = await self._exchange.fetch(policy, order.url, order.max_bytes, into, hops)
        except EvidenceError as error:
            later = hops[-1].retry_after_s if hops else None
            return Failed(order.id, type(error).__name__, error.rule, error.reason[:2048], _frames(hops), later)
        except Exception as error:  # one odd answer must not end the other fetches
            traceback.print_exc()
            return Failed(order.id, FetchError.__name__, "fetcher-defect", type(error).__name__, _frames(hops))
        return Done(order.id, body.size_bytes, str(body.digest), body.media_type, _frames(hops))


def _forms(report: Done | Failed) -> Iterator[Done | Failed]:
    """`report`, and what is said where a hostile server made it too large: it without headers, or that it is so."""
    yield report
    yield msgspec.structs.replace(report, hops=[msgspec.structs.replace(hop, headers=[]) for hop in report.hops])
    reason = f"what is to be recorded of {len(report.hops)} hops is more than a packet holds"
    yield Failed(report.id, FetchError.__name__, "record-over-limit", reason, [])


def _frames(hops: list[HopLog]) -> list[HopFrame]:
    return [HopFrame.of(hop.to_hop()) for hop in hops]
