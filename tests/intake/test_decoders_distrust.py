"""Decoders that were taken over: what they say and hold costs their own item and nothing else."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.artifact import Modality
from contracts.derivation_spec import parse_derivation
from contracts.digest import Digest
from contracts.errors import ChildFailed, EvidenceError, MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests.command import eventually
from tests.intake.lying_zygote import PNG

LIMITS = Limits().changed({"decode_wall_s": 0.5})
BROKEN = {
    **dict.fromkeys(
        (
            *("ends badly", "floods", "half a frame", "a giant", "says hello again", "a derivative nobody wants"),
            *("another type", "another kind", "a binary frame"),
        ),
        "decoder-protocol",
    ),
    **dict.fromkeys(("dies", "an empty frame", "its own last word"), "decoder-died"),
    **dict.fromkeys(("stops", "lets go"), "decode-wall-time"),
}


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[DecoderPool]:
    async with _pool() as opened:
        yield opened


def _pool(*, strict: bool = False, start_s: float = 60.0) -> DecoderPool:
    module = "tests.intake.lying_zygote"
    return DecoderPool(limits=LIMITS, workers=2, strict=strict, module=module, start_s=start_s)


async def _inspect(pool: DecoderPool, word: str, derive: str | None = None) -> Inspection:
    source = os.memfd_create("part", os.MFD_CLOEXEC)
    try:
        os.write(source, PNG + word.encode())
        recipe = None if derive is None else parse_derivation(derive)
        async with asyncio.timeout(20):
            return await pool.inspect(source, modality=Modality.IMAGE, derive=recipe)
    finally:
        os.close(source)


@pytest.mark.parametrize("strict", [False, True], ids=["shared decoders", "one for each item"])
@pytest.mark.parametrize("lie", BROKEN)
async def test_a_lie_costs_its_own_item(lie: str, strict: bool) -> None:
    """Three times on each decoder there is: the item ends by its rule, the next is served, and nothing stays open."""
    async with _pool(strict=strict) as pool:
        await _inspect(pool, "truth")
        before = await eventually(lambda: len(pool.pids) == 2 and _descriptors(), "two decoders")
        for _ in range(6):
            with pytest.raises((ChildFailed, MediaRejected), match=BROKEN[lie]):
                await _inspect(pool, lie)
        for _ in range(4):
            assert (await _inspect(pool, "truth")).findings == {"descriptors": 1}
        await eventually(lambda: len(pool.pids) == 2 and _descriptors() == before, "what there was before")
        living = _watched(pool.pids | pool.zygote_pids)
    assert _ended(living)


async def test_what_was_said_unasked_is_nobodys_verdict(pool: DecoderPool) -> None:
    """A second answer waits on the channel for the next item; who left it there is replaced before that is asked."""
    liars = pool.pids
    for _ in range(2):
        assert (await _inspect(pool, "answers twice")).findings == {}
    await eventually(lambda: all(_is_stopped(pid) for pid in liars), "both have said it all")
    for _ in range(4):
        assert (await _inspect(pool, "truth")).findings == {"descriptors": 1}
    assert pool.pids.isdisjoint(liars)


@pytest.mark.parametrize("word", ["ends badly", "floods"])
async def test_last_words_that_are_none_do_not_keep_the_pool_from_closing(word: str) -> None:
    """Whatever a decoder left on its channel, closing ends every process, and nobody waits for ever."""
    async with _pool() as pool:
        living = _watched(pool.pids | pool.zygote_pids)
        with suppress(ChildFailed):
            await asyncio.gather(*(_inspect(pool, word) for _ in range(2)))
    assert _ended(living)


async def test_smuggled_descriptors_stay_with_who_sent_them(pool: DecoderPool) -> None:
    """A hundred beside each verdict, or its own end of the channel, without whose end the pool would wait for it."""
    await _inspect(pool, "truth")
    before = _descriptors()
    for lie in ("smuggles", "keeps its channel") * 3:
        assert (await _inspect(pool, lie)).findings == {}
        await eventually(lambda: any(_is_stopped(pid) for pid in pool.pids), "it has said it all")
        for _ in range(2):
            await _inspect(pool, "truth")
    await eventually(lambda: len(pool.pids) == 2 and _descriptors() == before, "what there was before")


async def test_a_medium_stays_what_was_hashed(pool: DecoderPool) -> None:
    """With all rights a process can have, who is given the sealed medium cannot write, cut, extend or map it."""
    found = await _inspect(pool, "changes the medium")
    assert set(found.findings.values()) == {"refused"}
    assert found.artifact.digest == Digest.of(PNG + b"changes the medium")


async def test_a_file_to_write_into_comes_with_a_recipe_only(pool: DecoderPool) -> None:
    """Memory files are no part of a process's address space: whoever kept one of each item could fill the machine."""
    assert (await _inspect(pool, "truth")).findings == {"descriptors": 1}
    assert (await _inspect(pool, "truth", "image:format=png")).findings == {"descriptors": 2}


async def test_who_spins_without_a_cpu_limit_is_dead_soon_after_its_time(pool: DecoderPool) -> None:
    """It took its own timer away and ignores all signals: dead within 100 ms of the wall limit, of three times once,
    as the machine may have other work."""
    late = list[float]()
    for _ in range(3):
        processes, begin = _watched(pool.pids), time.monotonic()
        with pytest.raises(MediaRejected, match="decode-wall-time"):
            await _inspect(pool, "spins")
        late.append(time.monotonic() - begin - LIMITS.decode_wall_s)
        assert _how_many_ended(processes, 0) == 1
    assert min(late) < 0.1


async def test_a_stopped_decoder_at_rest_costs_one_item(pool: DecoderPool) -> None:
    """It cannot be told from a slow one before its time is over; then it is replaced."""
    for _ in range(2):
        await _inspect(pool, "answers and stops")
    outcomes = [await _outcome(pool) for _ in range(6)]
    assert sorted(outcomes) == ["decode-wall-time"] * 2 + ["served"] * 4


async def test_what_forks_and_hangs_is_replaced() -> None:
    """A stopped zygote answers no order: it is ended after its time, and others come from another."""
    async with _pool(strict=True, start_s=0.5) as pool:
        zygotes = pool.zygote_pids
        living = _watched(zygotes)
        for pid in zygotes:
            os.kill(pid, signal.SIGSTOP)
        async with asyncio.timeout(30):
            while await _outcome(pool) != "served" or zygotes & pool.zygote_pids:
                pass
        assert _ended(living)


async def _outcome(pool: DecoderPool) -> str:
    try:
        await _inspect(pool, "truth")
    except EvidenceError as error:
        return error.rule
    return "served"


def _watched(pids: frozenset[int]) -> list[int]:
    return [os.pidfd_open(pid) for pid in pids]


def _ended(processes: list[int]) -> bool:
    """Whether each ends soon; what namespaces hold ends a moment after them. The descriptors are closed."""
    return _how_many_ended(processes, 10_000) == len(processes)


def _how_many_ended(processes: list[int], milliseconds: int) -> int:
    ended = 0
    for process in processes:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        ended += len(poll.poll(milliseconds))
        os.close(process)
    return ended


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _is_stopped(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False
