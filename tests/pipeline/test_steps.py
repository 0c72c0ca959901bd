"""Steps that reach their end, whoever is canceled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipeline.steps import in_thread, to_the_end


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
