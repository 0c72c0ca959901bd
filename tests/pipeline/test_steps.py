"""Steps that reach their end, whoever is canceled."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from pipeline.steps import enter_together, in_thread, to_the_end


async def test_result_is_returned() -> None:
    """Without a cancellation a step is what it returns."""
    assert await in_thread(lambda: threading.current_thread() is threading.main_thread()) is False


async def test_error_is_raised() -> None:
    """A step's own error reaches who waits for it."""
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_canceled_thread_ends_first(times: int) -> None:
    """However often who waits is canceled, the thread's end comes first, and then the cancellation."""
    entered, let_go, log = asyncio.Event(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def step() -> None:
        loop.call_soon_threadsafe(entered.set)
        let_go.wait()
        log.append("step ended")

    async def wait() -> None:
        try:
            await in_thread(step)
        finally:
            log.append("waiter ended")

    waiting = asyncio.create_task(wait())
    await entered.wait()
    for _ in range(times):
        waiting.cancel()
        await asyncio.sleep(0)  # a turn of the loop, in which the cancellation is delivered
        await asyncio.sleep(0)
        assert not waiting.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert log == ["step ended", "waiter ended"]


async def test_cancellation_covers_an_error() -> None:
    """A step that fails after its waiter was canceled does not turn the cancellation into an error."""
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        entered.set()
        await let_go.wait()
        raise ZeroDivisionError

    waiting = asyncio.create_task(to_the_end(step()))
    await entered.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_step_canceled_itself() -> None:
    """A step that ends canceled ends its waiter so too, and nothing hangs."""

    async def step() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await to_the_end(step())


class _Part:
    """A context that starts when it is let, and may fail to."""

    def __init__(self, name: str, log: list[str], *, fails: bool = False, waits: bool = False) -> None:
        self._name, self._log, self._fails, self._waits = name, log, fails, waits

    async def __aenter__(self) -> str:
        try:
            if self._waits:
                await asyncio.Event().wait()
            if self._fails:
                raise ZeroDivisionError(self._name)
        except asyncio.CancelledError:
            self._log.append(f"{self._name} gave up")
            raise
        self._log.append(f"{self._name} started")
        return self._name

    async def __aexit__(self, *exc: object) -> None:
        self._log.append(f"{self._name} closed")


async def test_entered_together() -> None:
    """Contexts that start give their values in order, and the stack closes them."""
    log: list[str] = []
    async with AsyncExitStack() as stack:
        assert await enter_together(stack, _Part("a", log), _Part("b", log)) == ["a", "b"]
    assert sorted(log[:2]) == ["a started", "b started"]
    assert sorted(log[2:]) == ["a closed", "b closed"]


async def test_one_that_fails() -> None:
    """One that cannot start stops those that still do, closes those that did, and its own error is raised."""
    log: list[str] = []
    with pytest.raises(ZeroDivisionError, match="b"):
        async with AsyncExitStack() as stack:
            await enter_together(stack, _Part("a", log), _Part("b", log, fails=True), _Part("c", log, waits=True))
    assert log == ["a started", "c gave up", "a closed"]


async def test_canceled_while_starting() -> None:
    """A cancellation is raised when none is still starting, and what had started is closed."""
    log: list[str] = []

    async def start() -> None:
        async with AsyncExitStack() as stack:
            await enter_together(stack, _Part("a", log), _Part("b", log, waits=True))

    starting = asyncio.create_task(start())
    while not log:  # noqa: ASYNC110
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert log == ["a started", "b gave up", "a closed"]
