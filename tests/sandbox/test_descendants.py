"""A process that sweeps leaves nothing behind it, whatever its program started and however that ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.process_start import process_start
from tests.command import until

SWEEP = str(Path(__file__).resolve().parents[2] / "sandbox" / "run_and_sweep.py")
# A program with a child in a session of its own, which has one again: neither a group nor a parent's death ends them.
FAMILY = """
import os, subprocess, sys, time
depth = int(sys.argv[1])
if depth:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], str(depth - 1), *sys.argv[2:]], start_new_session=True)
print(os.getpid(), flush=True)
time.sleep(600 if sys.argv[3] == "sleep" or depth < 2 else 1)
sys.exit(7)
"""


def _start(mode: str) -> tuple[subprocess.Popen[str], list[int]]:
    """The sweeper, and the three generations it runs: the numbers of all that are to end."""
    program = [sys.executable, "-c", FAMILY, "2", FAMILY, mode]
    sweeper = subprocess.Popen([sys.executable, "-I", SWEEP, *program], stdout=subprocess.PIPE, text=True)
    assert sweeper.stdout is not None
    return sweeper, [int(sweeper.stdout.readline()) for _ in range(3)]


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if process_start(pid)]


def test_program_ends() -> None:
    """When the program ends by itself, what it left in other sessions is ended, and its exit code is passed on."""
    sweeper, family = _start("wait")
    with sweeper:
        assert sweeper.wait(30) == 7
    assert _alive(family) == []


@pytest.mark.parametrize("victim", [pytest.param(n, id=f"generation-{n}") for n in range(2)])
def test_killed(victim: int) -> None:
    """kill -9 of the program, or of its child and then the program, leaves nothing, and the code tells the signal."""
    sweeper, family = _start("sleep")
    with sweeper:
        parent = sweeper.pid
        program = int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])
        others = [pid for pid in family if pid != program]
        if victim:
            os.kill(others[0], signal.SIGKILL)
        os.kill(program, signal.SIGKILL)
        assert sweeper.wait(30) == 128 + signal.SIGKILL
    assert _alive(family) == []


def test_told_to_stop() -> None:
    """SIGTERM reaches the program, and the rest is swept."""
    sweeper, family = _start("sleep")
    with sweeper:
        sweeper.terminate()
        assert sweeper.wait(30) == 128 + signal.SIGTERM
    until(lambda: not _alive(family), "everything ended")
