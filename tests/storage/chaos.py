"""Workers that acquire, read and release, sweepers and an observer, all killed at random: run as a program, prints
what it saw.

Usage: python -m tests.storage.chaos HOME SECONDS locked|unlocked|collecting|hasty

`unlocked` is the negative control: the same without the lock per path. It ends at the first violation. A violation is
a file that is missing or has other bytes while a live lease of a living process names it, or an invariant that does
not hold beside all this, other than what dead processes leave.

`collecting` are runs that store media and record receipts whose retention is over at once, beside collectors: there a
violation is a blob that a live run stored and does not find any more. In its control, `hasty`, the collectors wait for
no run.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from contracts.retention import Retention
from settings.load import load
from storage.file_lock import file_lock
from storage.gc import collect
from storage.home import LOCKS, STAGING, Storage, open_storage
from storage.invariants import LEFT_BEHIND, invariants
from storage.reap import reap
from storage.staging import Staging
from storage.verify import VerdictName, verify_receipt
from tests.receipt_samples import TENANT
from tests.storage.recorded import recorded

KILL_EVERY_S = 0.2
PAUSE_S = 0.002
ARTIFACTS = [os.urandom(20_000) for _ in range(3)]
EVERYTHING = Retention({"*": 0})
CLOCKS_DIFFER_S = 0.05  # of one host
_PR_SET_PDEATHSIG = 1
Role = Callable[[Storage, int], None]


class SlowStaging(Staging):
    """Staging that dawdles between condemning a file and unlinking it: where the danger is."""

    def _unlink_condemned(self, tenant: str, staged_name: str) -> bool:
        time.sleep(PAUSE_S)
        return super()._unlink_condemned(tenant, staged_name)


def no_lock(_path: Path) -> AbstractContextManager[None]:
    """What holds nothing."""
    return nullcontext()


def chaotic(home: Path, kind: str) -> Storage:
    """A storage with staging of either kind, its database and host as settings say."""
    settings = load()
    storage = open_storage(home, database_url=settings.database_url, host=settings.host)
    lock = no_lock if kind == "unlocked" else file_lock
    root, locks = home / STAGING, home / LOCKS
    staging = SlowStaging(root, locks=locks, blobs=storage.blobs, database=storage.leases, lock=lock)
    return replace(storage, staging=staging)


def work(storage: Storage, told: int) -> None:
    """Acquire, read, release; tell every lease and every violation with one byte."""
    artifact = random.choice([Artifact(Digest.of(data), len(data), "image/png", Modality.IMAGE) for data in ARTIFACTS])
    held = storage.staging.acquire(artifact, tenant="acme", holder="chaos/1", now=time.time(), ttl_s=60.0)
    for _ in range(random.randrange(1, 4)):
        try:
            whole = Digest.of(held.path.read_bytes()) == artifact.digest
        except FileNotFoundError:
            whole = False
        if not whole:
            os.write(told, b"v")
    storage.staging.release(held.lease.id, time.time())
    os.write(told, b"l")


def sweep(storage: Storage, told: int) -> None:
    """Collect whatever can be collected."""
    os.write(told, b"u" * storage.staging.reconcile(time.time()).unlinked)


def observe(storage: Storage, told: int) -> None:
    """Look whether everything holds that always must."""
    found = [finding for finding in invariants(storage, time.time()) if finding.rule not in LEFT_BEHIND]
    os.write(told, b"v" * len(found) + b"o")


def record(storage: Storage, told: int) -> None:
    """A run of one question; everything that it stored is there until it ends."""
    run = uuid.uuid4().hex
    receipt = recorded(storage, run=run, now=time.time(), finished=False)
    _, data = storage.receipts.get(str(receipt), tenant=TENANT)
    if verify_receipt(receipt, data, storage.blobs).verdict is not VerdictName.VALID:
        os.write(told, b"v")
    storage.runs.finish(run, time.time())
    os.write(told, b"l")


def gather(storage: Storage, told: int) -> None:
    """One collection of everything that is no live run's."""
    now = time.time()
    done = collect(storage, EVERYTHING, now, grace_s=0.0, clocks_differ_s=CLOCKS_DIFFER_S, delete_blobs=True)
    os.write(told, b"u" * done.deleted.count + b"o")
    reap(storage, now)


def gather_hastily(storage: Storage, told: int) -> None:
    """The same as if no clock had ever shown a run to be live."""
    done = collect(storage, EVERYTHING, time.time(), grace_s=0.0, clocks_differ_s=-1e9, delete_blobs=True)
    os.write(told, b"u" * done.deleted.count)


_STAGING: tuple[Role, ...] = (work, work, work, work, sweep, observe)
ROLES: dict[str, tuple[Role, ...]] = {
    "locked": _STAGING,
    "unlocked": _STAGING,
    "collecting": (record, record, record, gather, gather),
    "hasty": (record, record, record, gather_hastily, gather_hastily),
}
CONTROLS = ("unlocked", "hasty")


def start(home: Path, kind: str, number: int, told: int) -> int:
    """Fork a process that plays its role for ever; it dies with us."""
    pid = os.fork()
    if pid:
        return pid
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        random.seed(os.getpid())
        storage = chaotic(home, kind)
        while True:
            ROLES[kind][number](storage, told)
    finally:
        os._exit(1)


def run(home: Path, seconds: float, kind: str) -> dict[str, int]:
    """Let them run and kill one every fifth of a second; count what they told."""
    storage = chaotic(home, kind)
    for data in ARTIFACTS:
        storage.blobs.put(data)
    storage.close()
    reading, told = os.pipe()
    os.set_blocking(reading, False)
    pids = [start(home, kind, number, told) for number in range(len(ROLES[kind]))]
    counts = dict.fromkeys(("leases", "violations", "unlinks", "looks", "kills", "crashes"), 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (kind in CONTROLS and counts["violations"]):
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
    for name, letter in (("leases", b"l"), ("violations", b"v"), ("unlinks", b"u"), ("looks", b"o")):
        counts[name] += told.count(letter)


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])))
