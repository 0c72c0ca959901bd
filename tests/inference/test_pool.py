"""The pool admits by weight, in order, and gives back whatever happens."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from contracts.errors import WorkerUnavailable
from contracts.limits import Limits
from contracts.profile import profile
from inference.pool import WorkerPool


def _pool(slots: int) -> WorkerPool:
    return WorkerPool("http://127.0.0.1:1", profile=profile("0.9.5"), route="r", limits=Limits(), slots=slots)


async def _turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_client_per_slot() -> None:
    """Holders have different clients, and nobody beyond the slots gets in."""
    async with _pool(2) as pool, AsyncExitStack() as holders:
        clients = [await holders.enter_async_context(pool.slot()) for _ in range(2)]
        assert len(set(map(id, clients))) == 2
        third = asyncio.create_task(holders.enter_async_context(pool.slot()))
        await _turns()
        assert repr(pool) == "<WorkerPool 2/2 used, 1 waiting>"
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert repr(pool) == "<WorkerPool 2/2 used, 0 waiting>"
    assert repr(pool) == "<WorkerPool 0/2 used, 0 waiting>"


async def test_heavy_is_not_overtaken() -> None:
    """A heavy request that waits is admitted before lighter ones that came later and would fit."""
    order: list[str] = []
    release = asyncio.Event()

    async def hold(name: str, weight: int, until: asyncio.Event | None = None) -> None:
        async with pool.slot(weight):
            order.append(name)
            if until is not None:
                await until.wait()

    async with _pool(3) as pool, asyncio.TaskGroup() as tasks:
        tasks.create_task(hold("first", 1, release))
        await _turns()
        tasks.create_task(hold("heavy", 3))
        await _turns()
        tasks.create_task(hold("light", 1))
        await _turns()
        assert order == ["first"]
        release.set()
    assert order == ["first", "heavy", "light"]


async def test_heavier_than_the_pool() -> None:
    """A weight over the capacity is the whole capacity: it runs alone instead of never."""
    async with _pool(2) as pool:
        async with pool.slot(9):
            assert repr(pool) == "<WorkerPool 2/2 used, 0 waiting>"
        assert repr(pool) == "<WorkerPool 0/2 used, 0 waiting>"


async def test_canceled_when_granted() -> None:
    """Who is canceled in the very turn in which it was granted gives the units back."""
    async with _pool(1) as pool:
        holder = pool.slot()
        await holder.__aenter__()
        waiting = asyncio.create_task(pool.slot().__aenter__())
        await _turns()
        await holder.__aexit__(None, None, None)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert repr(pool) == "<WorkerPool 0/1 used, 0 waiting>"


async def test_withdrawn_head_lets_others_in() -> None:
    """When a heavy head of the queue gives up, the ones behind it that fit go in at once."""
    async with _pool(2) as pool, pool.slot():
        heavy = asyncio.create_task(pool.slot(2).__aenter__())
        await _turns()
        light = pool.slot()
        entered = asyncio.create_task(light.__aenter__())
        await _turns()
        assert not entered.done()
        heavy.cancel()
        await entered
        await light.__aexit__(None, None, None)


async def test_failure_inside() -> None:
    """An error inside the slot gives it back."""
    async with _pool(1) as pool:
        with pytest.raises(ValueError, match="inside"):
            async with pool.slot():
                raise ValueError("inside")
        assert repr(pool) == "<WorkerPool 0/1 used, 0 waiting>"


async def test_closed() -> None:
    """A closed pool refuses those who wait and those who come."""
    pool = _pool(1)
    holder = pool.slot()
    await holder.__aenter__()
    waiting = asyncio.create_task(pool.slot().__aenter__())
    await _turns()
    await pool.aclose()
    with pytest.raises(WorkerUnavailable, match="pool-closed"):
        await waiting
    with pytest.raises(WorkerUnavailable, match="pool-closed"):
        await pool.slot().__aenter__()
    await holder.__aexit__(None, None, None)
