"""Work done once for several: shared while it is done and after, and nobody's end is another's."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.sharing import SharedWork


class _Job:
    """Work that waits until it is let go; counts how often it began."""

    def __init__(self, result: str = "done", error: Exception | None = None) -> None:
        self.began = 0
        self.running = asyncio.Event()
        self.let_go = asyncio.Event()
        self._result = result
        self._error = error

    async def __call__(self) -> str:
        self.began += 1
        self.running.set()
        await self.let_go.wait()
        if self._error is not None and self.began == 1:
            raise self._error
        return self._result


def _anything(_: str) -> bool:
    return True


def _shared(most: int = 10) -> SharedWork[str]:
    return SharedWork(most=most, lasting=lambda result: result != "for now")


async def _three(shared: SharedWork[str], job: _Job) -> list[asyncio.Task[tuple[str, bool]]]:
    """Three who ask at once, of whom the first works."""
    tasks = [asyncio.create_task(shared.get("key", job, accept=_anything)) for _ in range(3)]
    await job.running.wait()
    await asyncio.sleep(0)  # the others stand and wait
    return tasks


async def test_one_works_for_all() -> None:
    """Who comes at once and who comes later has the first one's result, and is told that it is another's."""
    shared, job = _shared(), _Job()
    tasks = await _three(shared, job)
    job.let_go.set()
    assert await asyncio.gather(*tasks) == [("done", False), ("done", True), ("done", True)]
    assert await shared.get("key", job, accept=_anything) == ("done", True)
    assert job.began == 1


async def test_another_key_is_other_work() -> None:
    """Only the same is shared."""
    shared, job = _shared(), _Job()
    job.let_go.set()
    await shared.get("key", job, accept=_anything)
    assert await shared.get("other", job, accept=_anything) == ("done", False)


async def test_what_does_not_last_is_for_those_who_wait() -> None:
    """They share it; who comes later has the work done again."""
    shared, job = _shared(), _Job("for now")
    tasks = await _three(shared, job)
    job.let_go.set()
    assert await asyncio.gather(*tasks) == [("for now", False), ("for now", True), ("for now", True)]
    assert await shared.get("key", job, accept=_anything) == ("for now", False)
    assert job.began == 2


async def test_a_canceled_worker_is_followed_by_one_who_waits() -> None:
    """The first is canceled in its work: the second works, and the third shares with it."""
    shared, job = _shared(), _Job()
    first, second, third = await _three(shared, job)
    first.cancel()
    job.let_go.set()
    assert list(await asyncio.gather(second, third)) == [("done", False), ("done", True)]
    assert first.cancelled()
    assert job.began == 2


async def test_a_canceled_waiter_takes_nothing_away() -> None:
    """Who waits is canceled: the worker and the other go on."""
    shared, job = _shared(), _Job()
    first, second, third = await _three(shared, job)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    job.let_go.set()
    assert list(await asyncio.gather(first, third)) == [("done", False), ("done", True)]
    assert job.began == 1


async def test_an_error_is_its_own() -> None:
    """The worker's error is raised to it alone; those who wait try themselves."""
    shared, job = _shared(), _Job(error=LookupError("mine"))
    first, second, third = await _three(shared, job)
    job.let_go.set()
    with pytest.raises(LookupError):
        await first
    assert list(await asyncio.gather(second, third)) == [("done", False), ("done", True)]


async def test_what_is_not_accepted_is_done_anew() -> None:
    """Neither a kept result nor that of work in progress is forced on anybody."""
    shared, job = _shared(), _Job()
    tasks = [asyncio.create_task(shared.get("key", job, accept=lambda _: False)) for _ in range(2)]
    job.let_go.set()
    assert await asyncio.gather(*tasks) == [("done", False), ("done", False)]
    assert await shared.get("key", job, accept=lambda _: False) == ("done", False)


async def test_only_so_many_are_kept() -> None:
    """The one that was used the longest ago goes first."""
    shared, job = _shared(most=2), _Job()
    job.let_go.set()
    for key in ("a", "b", "a", "c"):
        await shared.get(key, job, accept=_anything)
    assert [(await shared.get(key, job, accept=_anything))[1] for key in ("a", "c", "b")] == [True, True, False]
