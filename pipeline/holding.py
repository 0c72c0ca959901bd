"""Hold staged files for as long as a request needs them.

Leases are taken before the request is sent, renewed at a third of their life while it runs, and released whatever
happens. A holder that cannot renew stops its request and says `lease_lost`: another process may already have
reclaimed the file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from contracts.artifact import Artifact
from contracts.errors import EvidenceError, LeaseError, StorageError
from pipeline.steps import in_thread, to_the_end
from storage.hold import Hold
from storage.staging import Staging

T = TypeVar("T")
_CHECK_S = 1.0  # how often a holder looks at the clock; a lease lives for minutes
_CHECKS = 6  # and so often at least while one lives: two looks between when it is due and when it is too late
_log = logging.getLogger(__name__)


@asynccontextmanager
async def staged(
    staging: Staging, artifacts: Sequence[Artifact], *, tenant: str, holder: str, ttl_s: float
) -> AsyncIterator[Hold]:
    """Leases on `artifacts` for the body, let go at its end, also when it is canceled (twice)."""
    hold = Hold(staging)

    def take() -> None:
        for artifact in artifacts:
            if not hold.reuse(artifact):
                held = staging.acquire(
                    artifact, tenant=tenant, holder=holder, now=time.time(), ttl_s=ttl_s, meanwhile=keep
                )
                hold.add(held)

    def keep() -> None:
        """Pulling one file from a far store may take longer than the lease on another lives."""
        if hold.renew_due(now := time.time()):
            hold.renew(now)

    try:
        await in_thread(take)
        yield hold
    finally:
        await to_the_end(_release(hold, holder))


async def _release(hold: Hold, holder: str) -> None:
    try:
        await in_thread(hold.release, time.time())
    except EvidenceError as error:
        _log.warning("leases of %s are left to the reaper: %s", holder, error)


async def while_renewing(hold: Hold, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` while renewing the leases. Raises LeaseError, with `work` canceled, when one is lost."""
    task = asyncio.ensure_future(work)
    renewing = asyncio.create_task(_renew_forever(hold))
    try:
        await asyncio.wait({task, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            renewing.result()
        return task.result()
    finally:
        for running in (task, renewing):
            running.cancel()
        await asyncio.gather(task, renewing, return_exceptions=True)


async def _renew_forever(hold: Hold) -> None:
    pause_s = min([_CHECK_S, *(lease.ttl_s / _CHECKS for lease in hold.leases)])
    while True:
        await asyncio.sleep(pause_s)
        now = time.time()
        if hold.must_stop(now):
            raise LeaseError("lease-renewal", f"{len(hold.leases)} leases could not be renewed in time")
        if hold.renew_due(now):
            try:
                await in_thread(hold.renew, now)
            except StorageError as error:
                _log.warning("renewal failed and is tried again: %s", error)
