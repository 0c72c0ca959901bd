"""Work that several ask for is done once: who comes while it is done waits for it, who comes later has its result."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class SharedWork(Generic[Result]):
    """Results by key, within one event loop. The latest `most` that `lasting` says yes to are kept for who comes later.

    Nobody's cancellation or error is another's: if the one who works is stopped, one of those who wait works instead.
    """

    def __init__(self, *, most: int, lasting: Callable[[Result], bool]) -> None:
        self._most = most
        self._lasting = lasting
        self._kept: OrderedDict[Hashable, Result] = OrderedDict()
        self._working: dict[Hashable, asyncio.Future[Result | None]] = {}

    async def get(
        self, key: Hashable, work: Callable[[], Awaitable[Result]], *, accept: Callable[[Result], bool]
    ) -> tuple[Result, bool]:
        """The result for `key`, and whether it is another's. What `accept` says no to is not taken from another."""
        while True:
            kept = self._kept.get(key)
            if kept is not None and accept(kept):
                self._kept.move_to_end(key)
                return kept, True
            working = self._working.get(key)
            if working is None:
                return await self._work(key, work), False
            others = await asyncio.shield(working)
            if others is not None and accept(others):
                return others, True

    async def _work(self, key: Hashable, work: Callable[[], Awaitable[Result]]) -> Result:
        done: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self._working[key] = done
        result: Result | None = None
        try:
            result = await work()
            if self._lasting(result):
                self._keep(key, result)
            return result
        finally:
            del self._working[key]
            done.set_result(result)

    def _keep(self, key: Hashable, result: Result) -> None:
        self._kept[key] = result
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
