"""The slots of one worker, each with a client of its own, admitted by weight and in order.

One client per slot because a shared connection pool is scanned at every request: with 64 streams that scan was most
of the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from contracts.admission import Admission
from contracts.errors import WorkerUnavailable
from contracts.limits import Limits
from contracts.profile import Profile
from inference.client import WorkerClient


class WorkerPool:
    """Admission to one worker. Use as an async context manager; it closes the clients.

    `slots` is how many units of weight run at once.
    """

    def __init__(self, base_url: str, *, profile: Profile, route: str, limits: Limits, slots: int) -> None:
        self._clients = [WorkerClient(base_url, profile=profile, route=route, limits=limits) for _ in range(slots)]
        self._free = list(self._clients)
        self._admission = Admission(slots)
        self._granted: dict[int, asyncio.Future[None]] = {}
        self._tickets = count()
        self._closed = False

    def __repr__(self) -> str:
        admission = self._admission
        return f"<WorkerPool {admission.used}/{admission.capacity} used, {len(admission.queue)} waiting>"

    @asynccontextmanager
    async def slot(self, weight: int = 1) -> AsyncIterator[WorkerClient]:
        """Wait for `weight` units, then hold them and one client.

        A weight over the capacity is the whole capacity. Raises WorkerUnavailable when the pool is closed.
        """
        weight = min(weight, self._admission.capacity)
        await self._admitted(weight)
        client = self._free.pop()  # a unit weighs at least 1, so there are never more holders than clients
        try:
            yield client
        finally:
            self._free.append(client)
            self._give_back(weight)

    async def aclose(self) -> None:
        """Refuse who waits and close the clients; who holds one loses its connection."""
        self._closed = True
        for granted in self._granted.values():
            if not granted.done():
                granted.set_exception(WorkerUnavailable("pool-closed", "the worker's pool was closed"))
        for client in self._clients:
            await client.aclose()

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _admitted(self, weight: int) -> None:
        if self._closed:
            raise WorkerUnavailable("pool-closed", "the worker's pool was closed")
        ticket = next(self._tickets)
        self._admission = self._admission.ask(ticket, weight)
        granted = self._granted[ticket] = asyncio.get_running_loop().create_future()
        self._grant()
        try:
            await granted
        except BaseException:
            held = granted.done() and not granted.cancelled() and granted.exception() is None
            if held:  # granted and canceled in the same turn of the loop
                self._give_back(weight)
            else:
                self._admission = self._admission.withdraw(ticket)
                self._grant()
            raise
        finally:
            del self._granted[ticket]

    def _give_back(self, weight: int) -> None:
        self._admission = self._admission.release(weight)
        self._grant()

    def _grant(self) -> None:
        self._admission, admitted = self._admission.grant()
        for waiting in admitted:
            granted = self._granted[waiting.ticket]
            if not granted.done():
                granted.set_result(None)
