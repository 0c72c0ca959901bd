"""What decoders are forked from: nothing survives it, it survives them, and a fork keeps nothing of it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from contracts.artifact import Modality
from contracts.errors import ChildFailed, MediaRejected
from contracts.limits import Limits
from intake.decoder_worker import DecoderWorker
from intake.decoder_zygote import DecoderZygote
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.command import eventually

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import asyncio, sys
from contracts.artifact import Modality
from contracts.errors import NeedMissing
from contracts.limits import Limits
from intake.decoders import DecoderPool
from sandbox import seccomp
from sandbox.linux import PR_SET_NO_NEW_PRIVS, prctl

wanted, medium, *withheld = sys.argv[1:]
if withheld:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install([seccomp.Rule(name, seccomp.refuse(1)) for name in withheld], otherwise=seccomp.ALLOW)

async def main():
    try:
        async with DecoderPool(limits=Limits(), workers=2, unsafe=wanted == "unsafe", stderr=2) as pool:
            with open(medium, "rb") as file:
                found = await pool.inspect(file.fileno(), modality=Modality.IMAGE)
            print(*pool.pids, *pool.zygote_pids, flush=True)
            print(*found.layers, flush=True)
            if wanted == "waiting":
                await asyncio.Event().wait()
    except NeedMissing as error:
        print(error.rule)

asyncio.run(main())
"""


@pytest.fixture
def medium(tmp_path: Path) -> Path:
    """A file that holds a small picture."""
    file = tmp_path / "medium"
    file.write_bytes(samples.encode(samples.picture(), "PNG"))
    return file


def _owner(*words: str) -> list[str]:
    return [sys.executable, "-c", OWNER, *words]


@pytest.mark.parametrize("withheld", [(), ("unshare",)], ids=["as this machine allows", "where no namespaces are made"])
def test_nothing_survives_a_killed_owner(medium: Path, withheld: tuple[str, ...]) -> None:
    """SIGKILL of who owns the pool ends the decoders, what they are forked from, and the process outside of it."""
    owner = subprocess.Popen(_owner("waiting", str(medium), *withheld), cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    try:
        with owner.stdout:
            processes = [os.pidfd_open(int(pid)) for pid in owner.stdout.readline().split()]
            layers = owner.stdout.readline().split()
    finally:
        owner.kill()
        owner.wait()
    assert len(processes) == (4 if b"namespaces" in layers else 3)
    assert not (withheld and b"namespaces" in layers)
    for process in processes:
        assert _ended(process, 10), "a process of the pool is still alive"
        os.close(process)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("safe", "isolation-missing"), ("unsafe", "unsafe-no-landlock-no-seccomp")],
    ids=["none starts", "they start where that was said to be wanted, and each inspection says so"],
)
def test_decoders_on_a_kernel_with_neither_landlock_nor_seccomp(medium: Path, wanted: str, said: str) -> None:
    """Neither layer that could hold hostile code: refused by a rule, or named as what it is."""
    command = _owner(wanted, str(medium), "landlock_create_ruleset", "seccomp")
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    words = ran.stdout.split()
    assert words[-1:] == [said], ran.stderr
    assert not any(word.startswith("landlock") or word == "seccomp" for word in words)


async def test_a_killed_zygote_is_replaced(medium: Path) -> None:
    """Its decoders die with it; the pool has others from another, and at most the items meanwhile have failed."""
    async with DecoderPool(limits=Limits(), workers=2) as pool:
        zygotes = pool.zygote_pids
        decoders = [os.pidfd_open(pid) for pid in pool.pids]
        os.kill(_inner(zygotes), signal.SIGKILL)
        assert all(_ended(process, 10) for process in decoders)
        async with asyncio.timeout(20):
            while not await _decodes(pool, medium):
                pass
        assert pool.zygote_pids.isdisjoint(zygotes)
    for process in decoders:
        os.close(process)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at the descriptors of a confined process")
async def test_a_fork_holds_its_channel_and_nothing_else(medium: Path) -> None:
    """No control channel, no descriptor of another decoder, whatever there was when it was forked."""
    async with DecoderPool(limits=Limits(), workers=3) as pool:
        assert await _decodes(pool, medium)
        for pid in pool.pids:
            held = await eventually(partial(_few_descriptors, pid), "it has let go of what it said hello with")
            assert [held.pop(number) for number in (0, 1, 2)] == ["/dev/null"] * 3
            assert [name.partition(":")[0] for name in held.values()] == ["socket"]


async def test_a_busy_decoder_is_dead_soon_after_its_limits() -> None:
    """The kernel ends by CPU time and the pool by wall time, also where the decoder's namespace is not the pool's."""
    limits = Limits().changed({"animation_pixels": 1e12, "decode_cpu_s": 1, "decode_wall_s": 20.0})
    spinning = os.memfd_create("medium", os.MFD_CLOEXEC)
    os.write(spinning, samples.gif_bomb(frames=3_000))
    for bound, rule in ((limits, "decode-cpu-time"), (limits.changed({"decode_wall_s": 0.2}), "decode-wall-time")):
        async with DecoderPool(limits=bound, workers=1) as pool:
            (pid,) = pool.pids
            process = os.pidfd_open(pid)
            with pytest.raises(MediaRejected, match=rule):
                await pool.inspect(spinning, modality=Modality.IMAGE)
            assert _ended(process, 0)
            os.close(process)
    os.close(spinning)


async def test_a_busy_decoder_uses_no_more_than_its_cpu_time(medium: Path) -> None:
    """To the hundredth of a second, also after another item: a limit in whole seconds of all items would be late."""
    limits = Limits().changed({"animation_pixels": 1e12, "decode_cpu_s": 1})
    spinning = os.memfd_create("medium", os.MFD_CLOEXEC)
    os.write(spinning, samples.gif_bomb(frames=3_000))
    async with DecoderPool(limits=limits, workers=1) as pool:
        assert await _decodes(pool, medium)
        (pid,) = pool.pids
        item = asyncio.create_task(pool.inspect(spinning, modality=Modality.IMAGE))
        used, begun = 0, _cpu_ticks(pid)
        while not item.done():
            used = max(used, _cpu_ticks(pid) - begun)
            await asyncio.sleep(0.005)
        with pytest.raises(MediaRejected, match="decode-cpu-time"):
            await item
    os.close(spinning)
    assert used <= 1.1 * os.sysconf("SC_CLK_TCK")


async def test_a_decoder_cannot_speak_for_its_end() -> None:
    """What looks like a last word kills who wrote it: only the process descriptor says who lives."""
    zygote = DecoderZygote(Limits(), stderr=None, unsafe=False)
    worker = DecoderWorker(Limits(), zygote)
    await worker.greet(60)
    assert worker.pid is not None
    process = os.pidfd_open(worker.pid)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(b'{"ended":0}')
        os.dup2(ours.fileno(), worker._channel.fileno())
        with pytest.raises(ChildFailed, match="code 0"):
            await worker.ask({}, [])
    assert _ended(process, 5)
    os.close(process)
    zygote.kill()


async def _decodes(pool: DecoderPool, medium: Path) -> bool:
    with suppress(ChildFailed), medium.open("rb") as file:
        return bool((await pool.inspect(file.fileno(), modality=Modality.IMAGE)).findings)
    return False


def _cpu_ticks(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _descriptors(pid: int) -> dict[int, str]:
    return {int(entry.name): str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def _few_descriptors(pid: int) -> dict[int, str] | None:
    held = _descriptors(pid)
    return held if len(held) <= 4 else None


def _inner(zygotes: frozenset[int]) -> int:
    """The process that forks: with namespaces the one that is no child of ours."""
    children = {int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
    (pid,) = zygotes - children or zygotes
    return pid


def _ended(process: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
