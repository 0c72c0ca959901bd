"""Steps that must reach their end, beside an event loop that may cancel who waits for them.

A thread cannot be canceled. So when the task that waits for a step is canceled, the step's end is awaited first and
the cancellation raised after it: whatever the step took (a lease, a row) is known to the caller's `finally`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` in a thread and return its result. A cancellation is raised after it ended."""
    return await to_the_end(asyncio.to_thread(function, *args, **kwargs))


async def to_the_end(step: Coroutine[Any, Any, T]) -> T:
    """Await `step` even if this task is canceled meanwhile, then let the cancellation through."""
    task = asyncio.ensure_future(step)
    canceled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        if not task.cancelled():
            task.exception()  # looked at, so that the loop does not report it as never retrieved
        raise canceled
    return task.result()


async def enter_together(stack: AsyncExitStack, *contexts: AbstractAsyncContextManager[Any]) -> list[Any]:
    """Enter `contexts` side by side; what they gave, in order. `stack` closes those that could start.

    Raises the first failure, or the cancellation, only when none of them is still starting: what is closed then is
    closed once, and by nobody else.
    """
    try:
        async with asyncio.TaskGroup() as group:
            starts = [group.create_task(stack.enter_async_context(context)) for context in contexts]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [start.result() for start in starts]
