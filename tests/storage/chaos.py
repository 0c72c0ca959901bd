"""Workers that acquire, read and release, and a sweeper, all killed at random: run as a program, prints what it saw.

Usage: python -m tests.storage.chaos HOME SECONDS locked|unlocked

`unlocked` is the negative control: the same without the lock per path. It ends at the first violation. A violation
is a file that is missing or has other bytes while a live lease of a living process names it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from storage.disk_blobs import DiskBlobStore
from storage.file_lock import file_lock
from storage.sqlite_database import open_leases
from storage.staging import Staging

WORKERS = 4
KILL_EVERY_S = 0.2
PAUSE_S = 0.002
ARTIFACTS = [os.urandom(20_000) for _ in range(3)]
_PR_SET_PDEATHSIG = 1


class SlowStaging(Staging):
    """Staging that dawdles between condemning a file and unlinking it: where the danger is."""

    def _unlink_condemned(self, tenant: str, staged_name: str) -> bool:
        time.sleep(PAUSE_S)
        return super()._unlink_condemned(tenant, staged_name)


def no_lock(_path: Path) -> AbstractContextManager[None]:
    """What holds nothing."""
    return nullcontext()


def open_staging(home: Path, kind: str) -> Staging:
    """Staging of either kind."""
    lock = {"locked": file_lock, "unlocked": no_lock}[kind]
    blobs = DiskBlobStore(home / "blobs")
    leases = open_leases(home / "ledger")
    return SlowStaging(home / "staging", locks=home / "locks", blobs=blobs, database=leases, lock=lock)


def work(staging: Staging, told: int) -> None:
    """Acquire, read, release, for ever; tell every lease and every violation with one byte."""
    chance = random.Random(os.getpid())
    while True:
        data = chance.choice(ARTIFACTS)
        artifact = Artifact(Digest.of(data), len(data), "image/png", Modality.IMAGE)
        held = staging.acquire(artifact, tenant="acme", holder="chaos/1", now=time.time(), ttl_s=60.0)
        for _ in range(chance.randrange(1, 4)):
            try:
                whole = Digest.of(held.path.read_bytes()) == artifact.digest
            except FileNotFoundError:
                whole = False
            if not whole:
                os.write(told, b"v")
        staging.release(held.lease.id, time.time())
        os.write(told, b"l")


def sweep(staging: Staging, told: int) -> None:
    """Collect whatever can be collected, for ever."""
    while True:
        swept = staging.reconcile(time.time())
        os.write(told, b"u" * swept.unlinked)


def start(home: Path, kind: str, number: int, told: int) -> int:
    """Fork a worker, or the sweeper; it dies with us."""
    pid = os.fork()
    if pid:
        return pid
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        staging = open_staging(home, kind)
        (work if number < WORKERS else sweep)(staging, told)
    finally:
        os._exit(1)


def run(home: Path, seconds: float, kind: str) -> dict[str, int]:
    """Let them run and kill one every fifth of a second; count what they told."""
    blobs = DiskBlobStore(home / "blobs")
    for data in ARTIFACTS:
        blobs.put(data)
    reading, told = os.pipe()
    os.set_blocking(reading, False)
    pids = [start(home, kind, number, told) for number in range(WORKERS + 1)]
    counts = {"leases": 0, "violations": 0, "unlinks": 0, "kills": 0, "crashes": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end and (kind == "locked" or not counts["violations"]):
        time.sleep(KILL_EVERY_S)  # the pace of the chaos, not a wait for anything
        number = random.randrange(len(pids))
        counts["crashes"] += kill(pids[number]) != signal.SIGKILL
        counts["kills"] += 1
        pids[number] = start(home, kind, number, told)
        count(reading, counts)
    for pid in pids:
        kill(pid)
    count(reading, counts)
    return counts


def kill(pid: int) -> int:
    """Kill a child; returns the signal that ended it."""
    os.kill(pid, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def count(reading: int, counts: dict[str, int]) -> None:
    """Add what was told since the last time."""
    try:
        told = os.read(reading, 1 << 20)
    except BlockingIOError:
        return
    for name, letter in (("leases", b"l"), ("violations", b"v"), ("unlinks", b"u")):
        counts[name] += told.count(letter)


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])))
