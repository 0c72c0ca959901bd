"""Children: what they inherit, and that they never outlive us."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.spawn import MINIMAL_ENVIRONMENT, spawn, spawn_program

ROOT = Path(__file__).resolve().parents[2]


def _wait_until_gone(pid: int, timeout_s: float = 10) -> None:
    """Return when process `pid` has ended; fail after `timeout_s`."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor)
        assert poll.poll(timeout_s * 1000), f"process {pid} is still alive"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "words",
    [("none",), ("decoder",), ("fetcher",), ("program",), ("none", "view"), ("decoder", "view"), ("fetcher", "view")],
    ids=" in a ".join,
)
def test_no_child_survives_a_killed_parent(words: tuple[str, ...]) -> None:
    """SIGKILL of the parent ends the child, confined (and of another user) or not, in namespaces or not, ours or
    foreign."""
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.family_probe", *words], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout:
        pids = json.loads(parent.stdout.readline())["pids"]
        for pid in pids:
            os.kill(pid, 0)
        parent.kill()
        parent.wait()
    for pid in pids:
        _wait_until_gone(pid)


def test_a_child_inherits_nothing_but_its_channel(tmp_path: Path) -> None:
    """Environment as given, the null device for input, its channel, no other descriptor, directory `/`."""
    os.environ["MOSAIC_TEST_SECRET"] = "leaks"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held = (tmp_path / "held").open("wb")
    os.set_inheritable(held.fileno(), True)
    expected = theirs.fileno()
    child = spawn("tests.sandbox.confined_probe", channel=theirs, arguments=["none"])
    try:
        assert ours.recv(4096)
        process = Path(f"/proc/{child.pid}")
        environment = dict(item.split("=", 1) for item in (process / "environ").read_text().split("\0") if item)
        descriptors = {int(entry.name) for entry in (process / "fd").iterdir()}
        assert environment == dict(MINIMAL_ENVIRONMENT)
        assert descriptors == {0, 1, 2, expected}
        assert (process / "cwd").readlink() == Path("/")
        assert os.getsid(child.pid) == child.pid
    finally:
        del os.environ["MOSAIC_TEST_SECRET"]
        held.close()
        child.kill()
        ours.close()


async def test_waiting_does_not_block_the_event_loop() -> None:
    """`wait` lets other tasks run and returns the code once the child ended."""
    child = spawn_program(["/bin/sleep", "600"], environment={})
    waiting = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert child.is_alive()
    os.killpg(child.pid, signal.SIGTERM)
    assert await waiting == -signal.SIGTERM
    assert not child.is_alive()


async def test_kill_ends_the_whole_group() -> None:
    """What a foreign program started itself is killed with it."""
    reader, writer = os.pipe()
    child = spawn_program(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], environment={}, stdout=writer)
    os.close(writer)
    with os.fdopen(reader) as output:
        grandchild = int(output.readline())
        assert child.kill() == -signal.SIGKILL
        assert child.kill() == -signal.SIGKILL
        _wait_until_gone(grandchild)


async def test_stop_escalates() -> None:
    """A program that ignores SIGTERM is killed after the grace."""
    reader, writer = os.pipe()
    child = spawn_program(
        ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"], environment={}, stdout=writer
    )
    os.close(writer)
    with os.fdopen(reader) as output:
        assert output.readline() == "ready\n"
        assert await child.stop(0.05) == -signal.SIGKILL


def test_a_child_whose_parent_is_already_gone_exits() -> None:
    """The race between start and the death signal is closed by comparing the parent."""
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "sandbox" / "run_with_parent.py"), "1", "", "/bin/true"], capture_output=True
    )
    assert done.returncode == 1
    assert b"parent 1 is gone" in done.stderr
