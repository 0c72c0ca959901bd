"""Fetches in turn: bounded in all and by host, fair to tenants, tried again where that can help.

A fetch that waits before its next try holds no slot.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from contracts.errors import PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from contracts.records import AcquisitionRecord, Failure
from contracts.retry import retry_delay_s
from contracts.url_grammar import parse_url
from intake.fetch_turns import FetchTurns
from intake.fetcher import Fetcher

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchPace:
    """How many fetches run at a time, how many of them from one host (name and port of the URL; where redirects lead
    does not count), and how often one is tried in all."""

    slots: int
    per_host: int
    tries: int


class FetchQueue:
    """Fetches by one `fetcher` for any number of tenants, within one event loop. `jitter` (0 to 1) spreads the pauses
    before later tries."""

    def __init__(
        self, fetcher: Fetcher, pace: FetchPace, limits: Limits, *, jitter: Callable[[], float] = random.random
    ) -> None:
        self._fetcher = fetcher
        self._pace = pace
        self._limits = limits
        self._jitter = jitter
        self._turns: FetchTurns[asyncio.Event] = FetchTurns(pace.slots, pace.per_host)

    async def fetch(
        self, url: str, *, tenant: str, policy: NetworkPolicy, max_bytes: int, into: int
    ) -> AcquisitionRecord:
        """Fetch `url` when it is `tenant`'s turn, as `Fetcher.fetch` does; the record is the last try's, with how many
        there were."""
        host, spent_s, tries = _host(url), 0.0, 0
        while True:
            async with self._slot(tenant, host):
                got = await self._fetcher.fetch(url, policy=policy, max_bytes=max_bytes, into=into)
            tries += 1
            pause = self._pause_s(got.failure, tries)
            spent_s += got.seconds + (pause or 0.0)
            if got.failure is None or pause is None or spent_s > self._limits.fetch_tries_s:
                return replace(got, tries=tries)
            _log.info("%s failed by %s, tried again in %.1f s", got.requested, got.failure.rule, pause)
            await asyncio.sleep(pause)
            os.ftruncate(into, 0)

    def _pause_s(self, failure: Failure | None, tries: int) -> float | None:
        """Seconds until the next try; None if there is none."""
        if failure is None or tries >= self._pace.tries:
            return None
        return pause_s(failure, tries, self._jitter(), self._limits)

    @asynccontextmanager
    async def _slot(self, tenant: str, host: str) -> AsyncIterator[None]:
        turn = asyncio.Event()
        self._turns.wait(turn, tenant=tenant, host=host)
        self._serve()
        try:
            await turn.wait()
        except asyncio.CancelledError:
            if turn.is_set():  # given a slot in the moment in which it was canceled
                self._free(host)
            else:
                self._turns.give_up(turn, tenant=tenant, host=host)
            raise
        try:
            yield
        finally:
            self._free(host)

    def _free(self, host: str) -> None:
        self._turns.free(host)
        self._serve()

    def _serve(self) -> None:
        while (turn := self._turns.serve()) is not None:
            turn.set()


def pause_s(failure: Failure, tries: int, jitter: float, limits: Limits) -> float | None:
    """Seconds to wait after the `tries`-th try ended with `failure`; None where another cannot help.

    What a server asks for by Retry-After (RFC 9110 §10.2.3) is the least; where it asks for more than the limits have
    patience for, it is left alone.
    """
    if not failure.can_pass:
        return None
    delay = retry_delay_s(tries, jitter, limits.retry_delay_s)
    asked = failure.retry_after_s or 0.0
    return None if asked > limits.fetch_retry_after_s else asked + delay


def _host(url: str) -> str:
    """Whose slots a fetch of `url` takes. What cannot be read reaches no host: the policy refuses it."""
    try:
        target = parse_url(url)
    except PolicyDenied:
        return ""
    return f"{target.host}:{target.port}"
