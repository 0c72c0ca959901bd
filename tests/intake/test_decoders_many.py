"""Thousands of items, good and bad, leave what the pool holds as it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import media_samples as samples

_WORKERS, _AT_ONCE = 2, 8
_GOOD_EACH = 20  # to one whose content is refused, which costs its decoder
_GROWN_KIB = 4_096
_STANDARD = 3  # input, output, error
_PNG = samples.encode(samples.picture((64, 64)), "PNG")
_GOOD = ((Modality.IMAGE, _PNG), (Modality.AUDIO, samples.sound("wav", 0.1)), (Modality.VIDEO, samples.webm(2)))
_BAD = ((Modality.IMAGE, _PNG[:-20]), (Modality.AUDIO, b"words"), (Modality.VIDEO, samples.webm(2)[:-40]))


@dataclass(frozen=True, slots=True)
class _Held:
    """Descriptors here and in who forks, and all our processes."""

    here: int
    zygote: int
    processes: int


@pytest.fixture
def media() -> Iterator[list[tuple[Modality, int]]]:
    """Descriptors of media in the order in which they are given, over and over."""
    good, bad = ([(kind, _memory_file(data)) for kind, data in files] for files in (_GOOD, _BAD))
    yield [item for refused in bad for item in (*(good[turn % len(good)] for turn in range(_GOOD_EACH)), refused)]
    for _, descriptor in (*good, *bad):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("strict", "first", "many"), [(False, 500, 3_000), (True, 100, 500)], ids=["shared decoders", "one for each item"]
)
async def test_many_items_leave_memory_descriptors_and_processes_flat(
    strict: bool, first: int, many: int, media: list[tuple[Modality, int]]
) -> None:
    """Images, sounds and clips, one in twenty refused: afterwards no more is open, running or resident than before."""
    async with DecoderPool(limits=Limits(), workers=_WORKERS, strict=strict) as pool:
        begun = replace(_held(pool), zygote=_STANDARD + 1 + 2 * _WORKERS)  # its channel; a channel and a process each
        await _decode(pool, media, first)
        await _settled(pool, begun)
        resident, zygote = _resident_kib(os.getpid()), _resident_kib(_forking(pool))
        assert await _decode(pool, media, many) == many // (_GOOD_EACH + 1)
        await _settled(pool, begun)
        assert _resident_kib(os.getpid()) < resident + _GROWN_KIB
        assert _resident_kib(_forking(pool)) < zygote + _GROWN_KIB
        assert len(pool.pids) == _WORKERS


async def _decode(pool: DecoderPool, media: list[tuple[Modality, int]], count: int) -> int:
    """Inspect so many, some at once; how many were refused."""
    slots, refused = asyncio.Semaphore(_AT_ONCE), list[str]()

    async def one(modality: Modality, descriptor: int) -> None:
        async with slots:
            try:
                await pool.inspect(descriptor, modality=modality)
            except MediaRejected as error:
                refused.append(error.rule)

    await asyncio.gather(*(one(*media[index % len(media)]) for index in range(count)))
    return len(refused)


async def _settled(pool: DecoderPool, expected: _Held) -> None:
    """Wait until successors stand by and nothing else is left; fails with what is too much."""
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while _held(pool) != expected:  # noqa: ASYNC110  (the state is other processes')
                await asyncio.sleep(0.01)
    assert _held(pool) == expected


def _held(pool: DecoderPool) -> _Held:
    return _Held(_descriptors("self"), _descriptors(_forking(pool)), len(_family(os.getpid())))


def _forking(pool: DecoderPool) -> int:
    """The process that forks: with namespaces the inner one, which is no child of ours."""
    (pid,) = pool.zygote_pids - _children(os.getpid()) or pool.zygote_pids
    return pid


def _family(pid: int) -> list[int]:
    return [found for child in _children(pid) for found in (child, *_family(child))]


def _children(pid: int) -> set[int]:
    with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    return set()


def _descriptors(pid: int | str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("medium", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    return descriptor
