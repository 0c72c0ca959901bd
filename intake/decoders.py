"""The pool of confined decoders: hostile bytes in, an Inspection or a named refusal out.

Workers are forked from a warm process that never sees a byte, and confined before they see one. Each gets one item at a
time as a sealed memory file. One that died, overran, broke the protocol or refused its item's content is killed and
replaced in the background; so is one that served its share, because a worker that was taken over could lie about later
items. A strict pool gives each item a worker of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from contracts.artifact import MEDIA_TYPES, Artifact, Modality
from contracts.derivation import Derivation
from contracts.digest import CHUNK_BYTES
from contracts.errors import ChildFailed, EvidenceError, InputError, MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from contracts.signatures import possible_types
from intake.decoder_wire import Reply, parse_reply, read_derivative
from intake.decoder_worker import DecoderWorker
from intake.decoder_zygote import DecoderZygote
from intake.sealed import Sealed, seal, unreadable
from sandbox.confine import UNSAFE

_SEALED_AHEAD = 2  # items hashed and waiting for a worker: enough to never starve one, and memory stays bounded
_log = logging.getLogger(__name__)
_TYPE_RULES = "type-"  # refused before any decoder saw the bytes: the worker is as good as new


@dataclass(frozen=True, slots=True)
class _Item:
    sealed: Sealed
    modality: Modality
    derive: Derivation | None
    output: int | None  # a memory file for the derivative, where one is wanted

    @property
    def descriptors(self) -> list[int]:
        return [self.sealed.descriptor, *([] if self.output is None else [self.output])]


class DecoderPool:
    """`workers` confined decoders, each replaced after `recycle_after` items. Use it as an async context manager.

    `strict` replaces them after every item. `unsafe` lets them start where neither Landlock nor seccomp can be had.
    `stderr` is a descriptor for the children's standard error; None discards it. `module` is what decoders are forked
    from, which has `start_s` seconds for each. Use it from one event loop, whose thread must live as long as the pool:
    the children die with that thread.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        workers: int = 2,
        recycle_after: int = 64,
        stderr: int | None = None,
        strict: bool = False,
        unsafe: bool = False,
        module: str = "intake.children.zygote",
        start_s: float = 60.0,
    ) -> None:
        self._limits = limits
        self._count = workers
        self._recycle_after = 1 if strict else recycle_after
        self._zygote = DecoderZygote(limits, stderr=stderr, unsafe=unsafe, module=module)
        self._start_s = start_s
        self._working = asyncio.Semaphore(workers)  # successors stand by beside those at work
        self._settled: asyncio.Queue[DecoderWorker | EvidenceError] = asyncio.Queue()
        self._sealing = asyncio.Semaphore(workers + _SEALED_AHEAD)
        self._workers: set[DecoderWorker] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Start all workers; returns when they are ready. Raises NeedMissing or ChildFailed when it cannot be."""
        for _ in range(self._count):
            self._start_one()
        try:
            ready = [await self._idle() for _ in range(self._count)]
            for worker in ready:
                self._settled.put_nowait(worker)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Kill every worker, for good. Items that are in work or waiting fail with ChildFailed."""
        self._closed = True
        starts, self._starts = self._starts, set()
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        for worker in list(self._workers):
            self._discard(worker)
        self._zygote.kill()
        self._settled.put_nowait(ChildFailed("decoders-closed", "the decoder pool was closed"))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def pids(self) -> frozenset[int]:
        """Process ids of the workers that are ready or at work now."""
        return frozenset(worker.pid for worker in self._workers if worker.pid is not None)

    @property
    def zygote_pids(self) -> frozenset[int]:
        """Process ids of what the workers are forked from."""
        return self._zygote.pids

    async def inspect(self, source: int, *, modality: Modality, derive: Derivation | None = None) -> Inspection:
        """Decode all of `source` (a seekable descriptor) as a part of `modality`, inside the limits.

        The artifact's digest is of the bytes that were decoded. With `derive` the inspection has the derivative,
        unless the medium already is what it would be. Raises MediaRejected for a refusal (rule and reason from the
        decoder, or `encoded-bytes`, `decode-wall-time`, `decode-cpu-time`, `decode-memory`), ChildFailed when the
        decoder died or lied, StorageError when the source cannot be read, InputError `derivation-modality` for a
        recipe of another kind.
        """
        if derive is not None and derive.modality is not modality:
            reason = f"expected a recipe for {modality.value}, got one for {derive.modality.value}"
            raise InputError("derivation-modality", reason)
        async with self._sealing:
            with ExitStack() as kept:
                sealed = await self._seal(source, modality)
                kept.callback(sealed.close)
                output = None if derive is None else kept.enter_context(_memory_file())
                async with self._working:
                    return await self._decode(await self._idle(), _Item(sealed, modality, derive, output))

    async def _seal(self, source: int, modality: Modality) -> Sealed:
        caps = {
            Modality.IMAGE: self._limits.image_bytes,
            Modality.AUDIO: self._limits.audio_bytes,
            Modality.VIDEO: self._limits.video_bytes,
        }
        status = os.fstat(source)
        if stat.S_ISREG(status.st_mode) and status.st_size <= CHUNK_BYTES:  # a thread costs more than hashing one chunk
            return seal(source, max_bytes=caps[modality])
        try:
            own = os.dup(source)  # the caller may close its own while a thread still reads
        except OSError as error:
            raise unreadable(error) from error
        sealing = asyncio.ensure_future(asyncio.to_thread(_seal_and_close, own, caps[modality]))
        try:
            return await asyncio.shield(sealing)
        except asyncio.CancelledError:
            sealing.add_done_callback(_drop_sealed)
            raise

    async def _idle(self) -> DecoderWorker:
        while True:
            settled = await self._settled.get()
            if isinstance(settled, EvidenceError):
                if self._closed:
                    self._settled.put_nowait(settled)  # for the next who waits
                self._start_one()
                raise settled
            if settled.is_idle():
                return settled
            self._replace(settled)

    async def _decode(self, worker: DecoderWorker, item: _Item) -> Inspection:
        derive = None if item.derive is None else item.derive.to_json()
        request = {"modality": item.modality.value, "derive": derive}
        if worker.served + 1 >= self._recycle_after and not worker.succeeded:
            worker.succeeded = True
            self._start_one()
        begin = time.monotonic()
        try:
            reply = parse_reply(await worker.ask(request, item.descriptors))
            milliseconds = (time.monotonic() - begin) * 1_000
            if reply.rule is not None:
                raise MediaRejected(reply.rule, reply.reason)
            artifact = _artifact(reply, item)
            derivative = read_derivative(reply, item.output, item.derive)
        except MediaRejected as error:
            self._release(worker, healthy=error.rule.startswith(_TYPE_RULES))
            raise
        except BaseException:
            self._release(worker, healthy=False)
            raise
        self._release(worker, healthy=True)
        return Inspection(artifact, reply.findings, worker.layers, milliseconds, derivative)

    def _release(self, worker: DecoderWorker, *, healthy: bool) -> None:
        if not healthy or worker.served >= self._recycle_after or self._closed:
            self._replace(worker)
            return
        self._settled.put_nowait(worker)

    def _replace(self, worker: DecoderWorker) -> None:
        self._discard(worker)
        if not worker.succeeded:
            self._start_one()

    def _discard(self, worker: DecoderWorker) -> None:
        worker.kill()
        self._workers.discard(worker)

    def _start_one(self) -> None:
        if self._closed:
            return
        task = asyncio.ensure_future(self._start_worker())
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def _start_worker(self) -> None:
        try:
            worker = DecoderWorker(self._limits, self._zygote)
        except EvidenceError as error:
            self._settled.put_nowait(error)
            return
        self._workers.add(worker)
        try:
            await worker.greet(self._start_s)
        except EvidenceError as error:
            self._discard(worker)
            self._settled.put_nowait(error)
            return
        if UNSAFE in worker.layers:
            _log.warning("a decoder runs without isolation, as the settings let it")
        self._settled.put_nowait(worker)


def _artifact(reply: Reply, item: _Item) -> Artifact:
    """What the child says it is, where our own table says the same of the same bytes."""
    known = MEDIA_TYPES.get(reply.media_type)
    possible = possible_types(item.sealed.head, item.modality)
    if known is None or item.modality not in known.modalities or known.name not in possible:
        raise ChildFailed(
            "decoder-protocol", f"{reply.media_type} is not what a {item.modality.value} part can be here"
        )
    return Artifact(item.sealed.digest, item.sealed.size_bytes, known.name, item.modality)


@contextmanager
def _memory_file() -> Iterator[int]:
    try:
        descriptor = os.memfd_create("derivative", os.MFD_CLOEXEC)
    except OSError as error:
        raise unreadable(error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _seal_and_close(source: int, max_bytes: int) -> Sealed:
    try:
        return seal(source, max_bytes=max_bytes)
    finally:
        os.close(source)


def _drop_sealed(sealing: asyncio.Future[Sealed]) -> None:
    with suppress(EvidenceError, asyncio.CancelledError):
        sealing.result().close()
