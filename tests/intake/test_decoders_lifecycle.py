"""Workers die, are recycled, and never outlive us; items never leak."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.artifact import Modality
from contracts.errors import ChildFailed, MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from intake.sealed import seal
from tests import media_samples as samples
from tests.command import eventually

ROOT = Path(__file__).resolve().parents[2]
SMALL = samples.encode(samples.picture((64, 64)), "PNG")
SLOW = samples.gif_bomb(frames=1_000)
PATIENT = Limits().changed({"animation_pixels": 1e10})
ONE_OWNER = """
import asyncio, sys
from contracts.limits import Limits
from intake.decoders import DecoderPool
async def main():
    async with DecoderPool(limits=Limits(), workers=2) as pool:
        print(*pool.pids, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("part")
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return descriptor


@pytest.fixture
def small() -> int:
    return memory_file(SMALL)


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def _until_busy(pid: int) -> None:
    begin = _cpu_ticks(pid)
    await eventually(lambda: _cpu_ticks(pid) >= begin + 5, "a busy decoder")


async def test_a_worker_killed_mid_item_fails_its_item_only(small: int) -> None:
    """SIGKILL from outside is a failure of that item; the next one has a new worker."""
    slow = memory_file(SLOW)
    async with DecoderPool(limits=PATIENT, workers=1) as pool:
        (first,) = pool.pids
        item = asyncio.create_task(pool.inspect(slow, modality=Modality.IMAGE))
        await _until_busy(first)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ChildFailed, match="decoder-died"):
            await item
        inspection = await pool.inspect(small, modality=Modality.IMAGE)
        assert inspection.findings["width"] == 64
        assert pool.pids.isdisjoint({first})


async def test_a_worker_killed_at_rest_costs_no_item(small: int) -> None:
    """A worker that died while nobody used it is replaced before an item is given to it."""
    async with DecoderPool(limits=Limits(), workers=1) as pool:
        (first,) = pool.pids
        os.kill(first, signal.SIGKILL)
        _wait_until_ended(first)
        assert (await pool.inspect(small, modality=Modality.IMAGE)).findings["width"] == 64


async def test_a_canceled_item_leaves_no_worker_behind_it(small: int) -> None:
    """Cancellation kills the worker that held the item, at once."""
    slow = memory_file(SLOW)
    async with DecoderPool(limits=PATIENT, workers=1) as pool:
        (first,) = pool.pids
        item = asyncio.create_task(pool.inspect(slow, modality=Modality.IMAGE))
        await _until_busy(first)
        item.cancel()
        with pytest.raises(asyncio.CancelledError):
            await item
        assert not _exists(first)
        await pool.inspect(small, modality=Modality.IMAGE)


async def test_a_worker_is_replaced_after_its_share_and_after_a_refusal(small: int) -> None:
    """Nothing that a worker has seen lasts longer than it must; a refused type never reached a decoder."""
    async with DecoderPool(limits=Limits(), workers=1, recycle_after=4) as pool:
        (first,) = pool.pids
        for _ in range(2):
            await pool.inspect(small, modality=Modality.IMAGE)
            assert pool.pids == {first}
        for _ in range(6):
            await pool.inspect(small, modality=Modality.IMAGE)
        assert first not in pool.pids
        assert len(pool.pids) <= 2
    async with DecoderPool(limits=Limits(), workers=1) as pool:
        before = pool.pids
        for data, replaced in ((b"words", False), (SMALL[:-20], True)):
            with pytest.raises(MediaRejected):
                await pool.inspect(memory_file(data), modality=Modality.IMAGE)
            assert (pool.pids != before) is replaced


async def test_many_items_leave_memory_and_descriptors_flat(small: int) -> None:
    """200 items, more at once than there are workers: no descriptor stays open, no memory grows."""
    async with DecoderPool(limits=Limits(), workers=1, recycle_after=10_000) as pool:
        (pid,) = pool.pids

        async def many(count: int) -> None:
            await asyncio.gather(*(pool.inspect(small, modality=Modality.IMAGE) for _ in range(count)))

        await many(40)
        descriptors, resident = _open_descriptors(), _resident_kib(pid)
        await many(200)
        assert pool.pids == {pid}
        assert _open_descriptors() == descriptors
        assert _resident_kib(pid) < resident + 4_096


async def test_closing_ends_every_child(small: int) -> None:
    """After the pool is closed none of its processes exists."""
    async with DecoderPool(limits=Limits(), workers=2) as pool:
        await pool.inspect(small, modality=Modality.IMAGE)
        pids = pool.pids
        assert len(pids) == 2
    assert not [pid for pid in pids if _exists(pid)]


async def test_closing_fails_what_is_in_work_and_what_waits(small: int) -> None:
    """Nobody waits for ever for a pool that is gone."""
    slow = memory_file(SLOW)
    pool = DecoderPool(limits=PATIENT, workers=1)
    await pool.start()
    (worker,) = pool.pids
    items = [asyncio.create_task(pool.inspect(slow, modality=Modality.IMAGE))]
    await _until_busy(worker)
    items += [asyncio.create_task(pool.inspect(small, modality=Modality.IMAGE)) for _ in range(5)]
    await pool.close()
    async with asyncio.timeout(10):
        results = await asyncio.gather(*items, return_exceptions=True)
    assert [type(result) for result in results] == [ChildFailed] * 6
    with pytest.raises(ChildFailed, match="decoders-closed"):
        await pool.inspect(small, modality=Modality.IMAGE)
    assert not pool.pids


def test_no_decoder_survives_a_killed_owner() -> None:
    """SIGKILL of the process that owns the pool ends its confined children, which run as another user."""
    owner = subprocess.Popen([sys.executable, "-c", ONE_OWNER], cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout:
        pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2
    owner.kill()
    owner.wait()
    for pid in pids:
        _wait_until_ended(pid)


def test_sealed_bytes_cannot_change(small: int) -> None:
    """Neither we nor anybody who is given the descriptor can write, grow or shrink what was hashed."""
    sealed = seal(small, max_bytes=len(SMALL))
    with pytest.raises(PermissionError):
        os.write(sealed.descriptor, b"x")
    for size in (0, len(SMALL) + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(sealed.descriptor, size)
    sealed.close()


def _wait_until_ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(descriptor)
    assert poll.poll(10_000), f"process {pid} is still alive"
    os.close(descriptor)
