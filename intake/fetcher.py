"""The parent's side of the fetcher: starts it, gives it orders, believes nothing that can be measured.

One child serves any number of fetches at once. A child that dies, breaks its protocol, goes silent, or says a digest
that the bytes do not have is killed, and the next fetch starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
import stat
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

from contracts.digest import CHUNK_BYTES, Digest, Hasher
from contracts.errors import ChildFailed, EvidenceError, InputError, NeedMissing, PolicyDenied
from contracts.http_facts import shown_url
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy, check_url
from contracts.records import SOURCE_ERRORS, AcquisitionRecord, Failure
from contracts.version import VERSION
from intake.frames import OPEN_FILES, Cancel, Configure, Done, Failed, Fetch, PacketChannel, Ready, Unfit, read_report
from sandbox.spawn import MINIMAL_ENVIRONMENT, Child, spawn

_ENVIRONMENT: Mapping[str, str] = {**MINIMAL_ENVIRONMENT, "RES_OPTIONS": "timeout:2 attempts:2"}
_START_S = 30.0  # imports and the TLS context take 0.4 s on an idle machine
FETCHER = f"mosaic-evidence/{VERSION} h11/{version('h11')} openssl/{ssl.OPENSSL_VERSION.split()[1]}"
"""What records say that fetched: ours, and whose HTTP and TLS it stands on."""
_FILES_BESIDE, _FILES_EACH = 256, 3  # kept connections and the interpreter's own; a body, a socket, a resolution
_log = logging.getLogger(__name__)


class Fetcher:
    """`async with Fetcher(limits) as fetcher: record = await fetcher.fetch(…)`.

    Use it from one event loop, whose thread must live as long as the fetcher: the child dies with that thread.
    `extra_anchors` are PEM certificates to trust beside the public ones; `stderr` a descriptor for the child's. A child
    that says nothing for `silence_s` seconds after the total deadline, which it should have noticed itself, is killed.
    `module` is what the child runs.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        extra_anchors: str | None = None,
        stderr: int | None = None,
        silence_s: float = 10.0,
        module: str = "intake.children.fetch",
    ) -> None:
        self._plan = _Plan(limits or Limits(), extra_anchors, stderr, silence_s, module)
        self._starting = asyncio.Lock()
        self._in_flight = asyncio.Semaphore(_most_in_flight())
        self._session: _Session | None = None
        self._closed = False

    async def __aenter__(self) -> Fetcher:
        await self._live_session()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.aclose()

    @property
    def layers(self) -> tuple[str, ...]:
        """The isolation in force around the present child."""
        return () if self._session is None else self._session.layers

    @property
    def pid(self) -> int | None:
        """The present child's process id, for status displays."""
        return None if self._session is None else self._session.child.pid

    async def fetch(self, url: str, *, policy: NetworkPolicy, max_bytes: int, into: int) -> AcquisitionRecord:
        """Fetch `url` into the empty regular file `into` (a descriptor; its position does not move).

        A fetch that policy, server or network ended is a record with a failure. Raises ChildFailed where the child
        failed, InputError for a file that is not empty. Cancelling the caller cancels the fetch in the child.
        """
        status = os.fstat(into)
        if not stat.S_ISREG(status.st_mode) or status.st_size != 0:
            raise InputError("quarantine-file", f"expected an empty regular file, got {status.st_size} bytes")
        started_at, started = time.time(), time.monotonic()
        _tell_of_unsafe(policy, url)
        async with self._in_flight:
            session = await self._live_session()
            report = await session.fetch(url, policy, max_bytes, into)
        record = AcquisitionRecord(
            source="url",
            requested=shown_url(url, with_query=policy.record_queries),
            requested_digest=Digest.of(url.encode("utf-8", "surrogatepass")),
            started_at=started_at,
            seconds=0.0,
            hops=tuple(frame.to_hop() for frame in report.hops),
            policy=policy.name,
            policy_digest=policy.digest(),
            layers=session.layers,
            fetcher=FETCHER,
        )
        if isinstance(report, Failed):
            failure = Failure(report.error, report.rule, report.reason, report.retry_after_s)
            return replace(record, failure=failure, seconds=time.monotonic() - started)
        digest = await self._measure(session, report, max_bytes, into)
        return replace(
            record,
            size_bytes=report.size_bytes,
            digest=digest,
            media_type_claimed=report.media_type,
            seconds=time.monotonic() - started,
        )

    async def _measure(self, session: _Session, done: Done, max_bytes: int, into: int) -> Digest:
        own = os.dup(into)  # the caller may close its own while a thread still reads
        hasher = await asyncio.to_thread(_hash_and_close, own, max_bytes)
        if (hasher.size_bytes, str(hasher.digest())) != (done.size_bytes, done.digest):
            reason = f"said {done.size_bytes} bytes with {done.digest}, the file has {hasher.size_bytes} bytes"
            session.fail(ChildFailed("fetcher-digest", reason))
            raise ChildFailed("fetcher-digest", reason)
        return hasher.digest()

    async def _live_session(self) -> _Session:
        async with self._starting:
            if self._closed:
                raise InputError("fetcher-closed", "the fetcher was closed")
            if self._session is None or not self._session.is_live:
                self._session = await _Session.start(self._plan)
            return self._session


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to start a child."""

    limits: Limits
    extra_anchors: str | None
    stderr: int | None
    silence_s: float
    module: str


class _Session:
    """One child from its start to its end, and the fetches that wait for it."""

    def __init__(self, child: Child, channel: PacketChannel, patience_s: float) -> None:
        self.child = child
        self.layers: tuple[str, ...] = ()
        self._channel = channel
        self._patience_s = patience_s
        self._waiting: dict[int, asyncio.Future[Done | Failed]] = {}
        self._last_id = 0
        self._listener: asyncio.Task[None] | None = None
        self.is_live = True

    @classmethod
    async def start(cls, plan: _Plan) -> _Session:
        """Start a child and wait until it is confined. Raises NeedMissing, or ChildFailed `fetcher-start`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = PacketChannel(ours)
        child = spawn(plan.module, channel=theirs, environment=_ENVIRONMENT, stderr=plan.stderr)
        session = cls(child, channel, plan.limits.fetch_total_s + plan.silence_s)
        try:
            async with asyncio.timeout(_START_S):
                await channel.send(Configure(asdict(plan.limits), plan.extra_anchors))
                session.layers = await session._receive_ready()
        except (TimeoutError, OSError) as error:
            session.fail(ChildFailed("fetcher-start", "ended"))
            raise ChildFailed("fetcher-start", f"the fetcher did not start ({type(error).__name__})") from error
        except BaseException:
            session.fail(ChildFailed("fetcher-start", "ended"))
            raise
        session._listener = asyncio.create_task(session._listen())
        return session

    async def fetch(self, url: str, policy: NetworkPolicy, max_bytes: int, into: int) -> Done | Failed:
        """Order one fetch and wait for its end."""
        self._last_id += 1
        order = Fetch(self._last_id, url, policy.to_json(), max_bytes)
        future: asyncio.Future[Done | Failed] = asyncio.get_running_loop().create_future()
        self._waiting[order.id] = future
        try:
            await self._channel.send(order, [into])
            async with asyncio.timeout(self._patience_s):
                return await future
        except asyncio.CancelledError:
            await self._cancel(order.id)
            raise
        except TimeoutError as error:
            silent = ChildFailed("fetcher-silent", f"no word within {self._patience_s:g} s")
            self.fail(silent)
            raise silent from error
        except OSError as error:
            raise ChildFailed("fetcher-died", "the fetcher is gone") from error
        finally:
            self._waiting.pop(order.id, None)

    def fail(self, error: ChildFailed) -> None:
        """Kill the child and end every fetch that waits for it with `error`. Idempotent."""
        self.is_live = False
        if self._listener is not None:
            self._listener.cancel()
        self.child.kill()
        self._channel.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ChildFailed(error.rule, error.reason))

    async def aclose(self) -> None:
        """End the child."""
        self.fail(ChildFailed("fetcher-closed", "the fetcher was closed"))
        if self._listener is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    async def _receive_ready(self) -> tuple[str, ...]:
        packet, descriptors = await self._channel.receive()
        if not packet:
            code = self.child.kill()
            reason = f"the fetcher ended before it was confined (code {code}); its stderr says why"
            raise NeedMissing("fetcher-start", reason)
        ready = _read(packet, descriptors)
        if isinstance(ready, Unfit):
            raise NeedMissing(ready.rule, ready.reason)
        if not isinstance(ready, Ready):
            raise ChildFailed("fetcher-protocol", "expected a Ready packet first")
        return tuple(ready.layers)

    async def _cancel(self, order: int) -> None:
        with contextlib.suppress(OSError, EvidenceError):
            await self._channel.send(Cancel(order))

    async def _listen(self) -> None:
        ended = ChildFailed("fetcher-died", "the fetcher ended while it held fetches")
        try:
            while True:
                packet, descriptors = await self._channel.receive()
                if not packet:
                    break
                self._take(_read(packet, descriptors))
        except ChildFailed as error:
            ended = error
        except Exception as error:  # whatever it was, nobody listens any more, so nobody may wait
            _log.exception("the fetcher's channel failed")
            ended = ChildFailed("fetcher-channel", type(error).__name__)
        finally:
            self._listener = None
            self.fail(ended)

    def _take(self, report: Ready | Unfit | Done | Failed) -> None:
        if isinstance(report, Ready | Unfit) or not 0 < report.id <= self._last_id:
            raise ChildFailed("fetcher-protocol", "a report about nothing that was ordered")
        future = self._waiting.get(report.id)
        if future is None or future.done():
            return  # cancelled meanwhile
        if isinstance(report, Failed) and report.error not in SOURCE_ERRORS:
            raise ChildFailed("fetcher-protocol", "an error of no known class")
        future.set_result(report)


def _most_in_flight() -> int:
    """How many fetches a child has descriptors for: one more would cost it the packet that brings the body's."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    return max(1, (files - _FILES_BESIDE) // _FILES_EACH)


def _tell_of_unsafe(policy: NetworkPolicy, url: str) -> None:
    """A policy that may reach more than the public web is logged at every use, with the host and nothing else."""
    if policy.is_unsafe:
        try:
            host = check_url(policy, url).host
        except PolicyDenied:
            host = "a host that it refuses"
        _log.warning("network policy %s is in use: a fetch from %s", policy.name, host)


def _read(packet: bytes, descriptors: list[int]) -> Ready | Unfit | Done | Failed:
    for descriptor in descriptors:
        os.close(descriptor)
    if descriptors:
        raise ChildFailed("fetcher-protocol", "the fetcher sent a descriptor")
    return read_report(packet)


def _hash_and_close(descriptor: int, max_bytes: int) -> Hasher:
    try:
        return _hash_file(descriptor, max_bytes)
    finally:
        os.close(descriptor)


def _hash_file(descriptor: int, max_bytes: int) -> Hasher:
    """Hash what is in the file; stops over `max_bytes`, when it cannot be what was agreed any more."""
    hasher = Hasher()
    while hasher.size_bytes <= max_bytes and (data := os.pread(descriptor, CHUNK_BYTES, hasher.size_bytes)):
        hasher.update(data)
    return hasher
