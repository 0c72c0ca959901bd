"""Leases are held while work runs, renewed, let go, and their loss ends the work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.artifact import Artifact, Modality
from contracts.errors import LeaseError
from pipeline.holding import staged, while_renewing
from storage.home import Storage, open_storage
from storage.process_mark import boot_clock_s
from tests.pipeline.desk import PNG

_LONG_S = 120.0


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    """The storage of the holder."""
    storage = open_storage(tmp_path / "home")
    yield storage
    storage.close()


@pytest.fixture
def beside(storage: Storage, tmp_path: Path) -> Iterator[Storage]:
    """The same storage as another process sees it."""
    other = open_storage(tmp_path / "home")
    yield other
    other.close()


@pytest.fixture
def artifact(storage: Storage) -> Artifact:
    """A picture in the store."""
    digest, size_bytes = storage.blobs.put(PNG)
    return Artifact(digest, size_bytes, "image/png", Modality.IMAGE)


def _names(storage: Storage) -> list[str]:
    return [path.name for path in storage.staging.root.rglob("*") if path.is_file()]


async def test_held_and_let_go(storage: Storage, beside: Storage, artifact: Artifact) -> None:
    """Inside the block the file is there under a lease; after it neither is. One file asked for twice is one lease."""
    async with staged(storage.staging, [artifact, artifact], tenant="t", holder="r/a", ttl_s=_LONG_S) as hold:
        assert [path.read_bytes() for path in hold.paths] == [PNG, PNG]
        (lease,) = beside.staging.active()
        assert lease.holder == "r/a"
    assert beside.staging.active() == []
    assert _names(storage) == []


async def test_let_go_when_canceled_twice(storage: Storage, beside: Storage, artifact: Artifact) -> None:
    """A holder that is canceled, and again while it lets go, leaves no lease and no file."""
    inside = asyncio.Event()

    async def work() -> None:
        async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=_LONG_S):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert beside.staging.active() == []
    assert _names(storage) == []


async def test_canceled_while_taking(storage: Storage, beside: Storage, artifact: Artifact) -> None:
    """A holder that is canceled while a thread still takes its leases leaves none of them."""

    async def work() -> None:
        async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=_LONG_S):
            raise AssertionError("the block must not be entered")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)  # it has begun and waits for its thread
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert beside.staging.active() == []
    assert _names(storage) == []


async def test_result_of_work(storage: Storage, artifact: Artifact) -> None:
    """Work that ends in time gives its result, and its own error is not covered."""

    async def fail() -> None:
        raise ZeroDivisionError

    async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=_LONG_S) as hold:
        assert await while_renewing(hold, asyncio.sleep(0, "done")) == "done"
        with pytest.raises(ZeroDivisionError):
            await while_renewing(hold, fail())


@pytest.mark.parametrize("ttl_s", [0.6, 1.5])
async def test_renewed(storage: Storage, beside: Storage, artifact: Artifact, ttl_s: float) -> None:
    """Work that takes longer than a lease lives keeps it, also a lease of less than a second."""
    async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=ttl_s) as hold:
        (first,) = hold.leases

        async def outlive() -> float:
            while time.time() < first.expires_at + ttl_s / 2:  # noqa: ASYNC110
                await asyncio.sleep(ttl_s / 20)  # the clock is what is waited for
            return time.time()

        ended = await while_renewing(hold, outlive())
        (now,) = beside.staging.active()
        assert now.id == first.id
        assert now.expires_at > ended > first.expires_at


async def test_lost_lease_ends_work(storage: Storage, beside: Storage, artifact: Artifact) -> None:
    """When another process has taken the lease away, the work is canceled and the loss is an error."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=0.6) as hold:
        running = asyncio.create_task(while_renewing(hold, work()))
        await started.wait()
        beside.staging.sweep(time.time() + 3_600, boot_clock_s() + 3_600)  # as after an hour in which nobody renewed
        with pytest.raises(LeaseError, match="lease-lost"):
            await running
        assert ended.is_set()
    assert _names(storage) == []


async def test_canceled_holder_ends_work(storage: Storage, artifact: Artifact) -> None:
    """Canceling who holds cancels the work and lets it end first."""
    started, log = asyncio.Event(), list[str]()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("work ended")

    async with staged(storage.staging, [artifact], tenant="t", holder="r/a", ttl_s=_LONG_S) as hold:
        running = asyncio.create_task(while_renewing(hold, work()))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert log == ["work ended"]
