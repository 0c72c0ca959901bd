"""Runs the command line as people do, in processes of its own, and looks for what a run must never leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from storage.home import open_storage

REPOSITORY = Path(__file__).resolve().parent.parent
PATIENCE_S = 60.0  # for a state that must come; never slept through


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """Every line of stdout as JSON. Fails where a line is anything else."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> Any:
        """The one object of stdout."""
        (only,) = self.objects
        return only


@dataclass(frozen=True, slots=True)
class Mosaic:
    """The command line with a home of its own."""

    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a command sees: nothing of this process but where programs are."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        ours = {"MOSAIC_HOME": str(self.home), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"}
        return {**kept, **ours, **self.variables}

    def start(self, *arguments: str | Path, **streams: Any) -> subprocess.Popen[str]:
        """Start a command, in a session of its own, and return at once."""
        command = [sys.executable, "-P", "-m", "cli", *map(str, arguments)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(
            command, env=self.environment, cwd=REPOSITORY, text=True, start_new_session=True, **streams
        )

    def __call__(self, *arguments: str | Path) -> Finished:
        """Run a command to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=100)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return Finished(process.returncode, out, err)


def until(state: Callable[[], Any], what: str) -> Any:
    """Wait until `state` gives something true, and return it. Fails, saying `what`, after PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while not (found := state()):
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)  # between two looks at another process, which cannot tell us
    return found


async def eventually(state: Callable[[], Any], what: str) -> Any:
    """`until`, for tests whose loop has work to do meanwhile."""
    end = time.monotonic() + PATIENCE_S
    while not (found := state()):
        assert time.monotonic() < end, f"never happened: {what}"
        await asyncio.sleep(0.005)  # between two looks at another process, which cannot tell us
    return found


def stop(process: subprocess.Popen[str], number: signal.Signals) -> Finished:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Finished(process.returncode, out, err)


def children_of(pid: int, home: Path) -> dict[int, str]:
    """The live processes that `pid` started, found by the marks they carry: each confined child has its parent's
    number in its arguments, and foreign programs have `home` in theirs or in their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (pid, os.getpid()):
            mark = _mark(entry, str(pid), str(home))
            if mark:
                found[int(entry.name)] = mark
    return found


def _mark(process: Path, pid: str, home: str) -> str:
    try:
        arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        variables = (process / "environ").read_bytes().decode(errors="replace")
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    started_by = any(
        name.endswith(("child_main.py", "run_with_parent.py")) and number == pid for name, number in pairwise(arguments)
    )
    is_ours = started_by or any(home in argument for argument in arguments) or home in variables
    return " ".join(arguments) if is_ours and state not in "ZX" else ""


def left_behind(home: Path) -> list[str]:
    """What no ended run may leave: live leases, staged files, quarantine, half-written files. Empty is right."""
    storage = open_storage(home)
    try:
        left = [f"lease {lease.id} of {lease.holder}" for lease in storage.staging.active()]
        left += [f"attempt {attempt}" for attempt in open_attempts(home)]
        halves = list((home / "blobs").rglob(".*"))
    finally:
        storage.close()
    files = [path for name in ("staging", "quarantine") for path in (home / name).rglob("*") if path.is_file()]
    folders = list((home / "quarantine").glob("*"))
    return left + [str(path) for path in [*files, *folders, *halves]]


def open_attempts(home: Path) -> list[str]:
    """The ids of the attempts that are open now."""
    from sqlalchemy import select

    from storage.schema import attempt

    storage = open_storage(home)
    try:
        with storage.ledger.read() as tx:
            return [row.id for row in tx.execute(select(attempt.c.id).where(attempt.c.state == "open"))]
    finally:
        storage.close()
