"""The parent's side of the fetcher: starts it, gives it orders, believes nothing that can be measured.

One child serves any number of fetches at once. A child that dies, breaks its protocol, goes silent, or says a digest
that the bytes do not have is killed, and the next fetch starts another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import ssl
import stat
import time
from dataclasses import replace
from importlib.metadata import version

from contracts.digest import CHUNK_BYTES, Digest, Hasher
from contracts.errors import ChildFailed, InputError, PolicyDenied
from contracts.http_facts import shown_url
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy, check_url
from contracts.records import AcquisitionRecord, Failure
from contracts.version import VERSION
from intake.fetch_session import FetchPlan, FetchSession
from intake.frames import OPEN_FILES, Done, Failed

FETCHER = f"mosaic-evidence/{VERSION} h11/{version('h11')} openssl/{ssl.OPENSSL_VERSION.split()[1]}"
"""What records say that fetched: ours, and whose HTTP and TLS it stands on."""
_FILES_BESIDE, _FILES_EACH = 256, 3  # kept connections and the interpreter's own; a body, a socket, a resolution
_log = logging.getLogger(__name__)


class Fetcher:
    """`async with Fetcher(limits) as fetcher: record = await fetcher.fetch(…)`.

    Use it from one event loop, whose thread must live as long as the fetcher: the child dies with that thread.
    `extra_anchors` are PEM certificates to trust beside the public ones; `stderr` a descriptor for the child's. A child
    that says nothing for `silence_s` seconds after the total deadline, which it should have noticed itself, is killed.
    `module` is what the child runs. `unsafe` lets it start where neither Landlock nor seccomp can be had.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        extra_anchors: str | None = None,
        stderr: int | None = None,
        silence_s: float = 10.0,
        module: str = "intake.children.fetch",
        unsafe: bool = False,
    ) -> None:
        self._plan = FetchPlan(limits or Limits(), extra_anchors, stderr, silence_s, module, unsafe)
        self._starting = asyncio.Lock()
        self._in_flight = asyncio.Semaphore(_most_in_flight())
        self._session: FetchSession | None = None
        self._retired: list[FetchSession] = []
        self._closed = False

    async def __aenter__(self) -> Fetcher:
        await self._live_session()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._closed = True
        for session in (*self._retired, self._session):
            if session is not None:
                await session.aclose()

    @property
    def layers(self) -> tuple[str, ...]:
        """The isolation in force around the present child."""
        return () if self._session is None else self._session.layers

    @property
    def pid(self) -> int | None:
        """The present child's process id, for status displays."""
        return None if self._session is None else self._session.child.pid

    @property
    def worker_pid(self) -> int | None:
        """The process that does the work: the present child, or the one in its namespaces that it waits for."""
        return None if self._session is None else self._session.child.worker_pid

    async def fetch(self, url: str, *, policy: NetworkPolicy, max_bytes: int, into: int) -> AcquisitionRecord:
        """Fetch `url` into the empty regular file `into` (a descriptor; its position does not move).

        A fetch that policy, server or network ended is a record with a failure. Raises ChildFailed where the child
        failed, InputError for a file that is not empty. Cancelling the caller cancels the fetch in the child.
        """
        status = os.fstat(into)
        if not stat.S_ISREG(status.st_mode) or status.st_size != 0:
            raise InputError("quarantine-file", f"expected an empty regular file, got {status.st_size} bytes")
        started, record = time.monotonic(), self._begun(url, policy)
        try:
            target = check_url(policy, url)  # the child asks again, and again for each redirect
        except PolicyDenied as denied:
            return replace(record, failure=Failure.of(denied), seconds=time.monotonic() - started)
        if policy.is_unsafe:
            _log.warning("network policy %s is in use: a fetch from %s", policy.name, target.host)
        async with self._in_flight:
            session = await self._live_session()
            report = await session.fetch(url, policy, max_bytes, into)
        record = replace(record, hops=tuple(frame.to_hop() for frame in report.hops), layers=session.layers)
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

    def _begun(self, url: str, policy: NetworkPolicy) -> AcquisitionRecord:
        """What a record says before anything was asked."""
        return AcquisitionRecord(
            source="url",
            requested=shown_url(url, with_query=policy.record_queries),
            requested_digest=Digest.of(url.encode("utf-8", "surrogatepass")),
            started_at=time.time(),
            seconds=0.0,
            policy=policy.name,
            policy_digest=policy.digest(),
            layers=self.layers,
            fetcher=FETCHER,
        )

    async def _measure(self, session: FetchSession, done: Done, max_bytes: int, into: int) -> Digest:
        own = os.dup(into)  # the caller may close its own while a thread still reads
        if os.fstat(own).st_size <= CHUNK_BYTES:  # a thread costs more than hashing one chunk
            hasher = _hash_and_close(own, max_bytes)
        else:
            hasher = await asyncio.to_thread(_hash_and_close, own, max_bytes)
        if (hasher.size_bytes, str(hasher.digest())) != (done.size_bytes, done.digest):
            reason = f"said {done.size_bytes} bytes with {done.digest}, the file has {hasher.size_bytes} bytes"
            session.fail(ChildFailed("fetcher-digest", reason))
            raise ChildFailed("fetcher-digest", reason)
        return hasher.digest()

    async def _live_session(self) -> FetchSession:
        async with self._starting:
            if self._closed:
                raise InputError("fetcher-closed", "the fetcher was closed")
            if self._session is not None and self._session.is_live and not self._session.sees_names_as_we_do:
                _log.info("the resolver's files were replaced, so the fetcher is")
                self._session.retire()
                self._retired = [*(each for each in self._retired if each.is_live), self._session]
                self._session = None
            if self._session is None or not self._session.is_live:
                self._session = await FetchSession.start(self._plan)
            return self._session


def _most_in_flight() -> int:
    """How many fetches a child has descriptors for: one more would cost it the packet that brings the body's."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    return max(1, (files - _FILES_BESIDE) // _FILES_EACH)


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
