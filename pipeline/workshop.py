"""Everything a run works with, opened together and closed in reverse: storage, confined children, a worker.

This is where the packages that do not see each other are wired.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from contracts.artifact import Modality
from contracts.derivation import Derivation
from contracts.errors import InputError, WorkerUnavailable
from contracts.limits import Limits
from contracts.locator import redact_url
from contracts.network_policy import NetworkPolicy
from contracts.records import AcquisitionRecord
from contracts.release import Release
from inference.pool import WorkerPool
from intake.decoders import DecoderPool
from intake.fetch_queue import FetchPace, FetchQueue
from intake.fetcher import Fetcher
from pipeline.steps import enter_together
from serving.calibration.bundle import unpack
from serving.embedded_worker import EmbeddedWorker, release_of
from serving.readiness import Verdict, check_ready
from settings.values import Settings
from storage.home import Storage, storage_of
from storage.s3_client import S3Access
from storage.s3_sources import S3Sources

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Open resources, and what is in force: limits, policy, release."""

    settings: Settings
    limits: Limits
    policy: NetworkPolicy
    release: Release
    storage: Storage
    fetches: FetchQueue
    objects: S3Sources
    decoders: DecoderPool
    workers: WorkerPool

    def derivation(self, modality: Modality) -> Derivation | None:
        """What the release needs made of a part of `modality`: engines take a video as frames (ADR 0002)."""
        return self.release.derivation(modality)

    async def fetch(self, url: str, *, max_bytes: int, into: int) -> AcquisitionRecord:
        """Fetch `url` for this tenant into the descriptor `into`, under the policy in force, when it is its turn."""
        tenant = self.settings.tenant
        return await self.fetches.fetch(url, tenant=tenant, policy=self.policy, max_bytes=max_bytes, into=into)


@asynccontextmanager
async def open_workshop(settings: Settings, limits: Limits) -> AsyncIterator[Workshop]:
    """A workshop under `limits` (the deployment's, or narrower). Children start side by side.

    Raises NeedMissing, StorageError or WorkerUnavailable when something it needs cannot be had, and InputError for
    settings that contradict each other.
    """
    policy = settings.network_policy()
    if policy.is_unsafe:
        _log.warning("network policy %s is in force: fetches may reach more than the public web", policy.name)
    objects = _objects(settings, limits)
    async with AsyncExitStack() as stack:
        stack.callback(objects.close)
        storage = storage_of(settings)
        stack.callback(storage.close)
        await asyncio.to_thread(storage.blobs.check)
        storage.staging.prepare()
        fetcher = Fetcher(limits, unsafe=settings.unsafe_isolation)
        decoders = DecoderPool(
            limits=limits,
            workers=settings.decode_workers,
            strict=settings.strict_decoders,
            unsafe=settings.unsafe_isolation,
        )
        worker = _Worker(settings, limits)
        await enter_together(stack, fetcher, decoders, worker)
        release = worker.release
        if settings.release != release.name:
            reason = f"no release {settings.release!r} to serve; this worker serves {release.name}"
            raise InputError("release-unknown", reason)
        workers = WorkerPool(
            worker.url,
            profile=release.engine_profile(),
            route=release.route,
            limits=limits,
            slots=settings.worker_slots,
        )
        await stack.enter_async_context(workers)
        pace = FetchPace(settings.fetch_concurrency, settings.fetch_per_host, settings.fetch_tries)
        fetches = FetchQueue(fetcher, pace, limits)
        yield Workshop(settings, limits, policy, release, storage, fetches, objects, decoders, workers)


def _objects(settings: Settings, limits: Limits) -> S3Sources:
    access = S3Access.of(settings, connect_s=limits.fetch_connect_s, idle_s=limits.fetch_idle_s)
    return S3Sources(access, settings.s3_source_buckets, limits)


class _Worker:
    """The worker that settings name, or an embedded one of our own."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self._url = settings.worker_url
        self._home = settings.home
        self._staging = settings.staging
        self._own = EmbeddedWorker(settings.home, settings.staging, limits=limits)
        self._release: Release | None = None

    async def __aenter__(self) -> _Worker:
        if self._url is None:
            await self._own.__aenter__()
            self._release = self._own.release
            return self
        self._release = release_of(await asyncio.to_thread(unpack, self._home))
        # The semantic gate also tells whether the worker reads the staging root that we write.
        root = self._staging.resolve()
        for gate in await check_ready(self._url, route=self._release.route, staging_root=root):
            if gate.verdict is not Verdict.PASS:
                advice = f"start one with the staging root {root}, or unset worker_url"
                where = f"the worker at {redact_url(self._url)} is not ready, gate {gate.name}"
                raise WorkerUnavailable("worker-not-ready", f"{where}: {gate.reason}; {advice}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._own.stop()

    @property
    def url(self) -> str:
        return self._url or self._own.url

    @property
    def release(self) -> Release:
        if self._release is None:
            raise WorkerUnavailable("worker-not-started", "the worker was not started")
        return self._release
