"""Kill a process before each step of what storage does, one after the other: run as a program, prints what it saw.

Usage: python -m tests.storage.crash_points FOLDER SCENARIO

A step is a call into the kernel or the database by storage's code (link, fdatasync, rename, flock, an SQL statement,
a commit). The interpreter tells of each (sys.setprofile), so that no product code knows of it. The scenario runs in a
child that kills itself with SIGKILL before its first step, then in another before its second, until one comes to its
end. After each: open the storage anew, reap, and look whether the invariants hold. One JSON line for each crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from contracts.digest import Digest
from contracts.lease import Lease
from contracts.receipt import LeaseRecord
from contracts.retention import Retention
from settings.load import load
from storage.gc import collect
from storage.home import Storage, open_storage
from storage.invariants import invariants
from storage.reap import reap
from storage.runs import RunStart
from storage.scrub import scrub
from tests.blob_files import overwrite_blob
from tests.receipt_samples import ENGINE, IMAGE, TENANT, artifact, changed, draft, receipt, result_of
from tests.storage.recorded import recorded

_OF_THE_KERNEL = frozenset(
    {"open", "write", "fchmod", "fdatasync", "fsync", "link", "rename", "replace", "unlink", "mkdir", "rmdir", "flock"}
)
_OF_A_DATABASE = frozenset({"execute", "executemany", "commit", "exec_params", "exec_prepared"})
Scenario = Callable[[Storage, str], None]


@dataclass(frozen=True, slots=True)
class Crash:
    """Where it was killed (None: it came to its end), and what did not hold before reap and after it."""

    step: str | None
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def put(storage: Storage, run: str) -> None:
    """Commit bytes that the store does not have."""
    with stepping():
        storage.blobs.put(run.encode() * 1_000)


def stage(storage: Storage, run: str) -> None:
    """Lease and publish a blob that is there."""
    with stepping():
        _acquire(storage, run)


def release(storage: Storage, run: str) -> None:
    """Let go of the last lease, with the file."""
    lease = _acquire(storage, run)
    with stepping():
        storage.staging.release(lease.id, time.time())


def record(storage: Storage, run: str) -> None:
    """A run, its attempt, its blobs, its receipt, its end."""
    with stepping():
        _begin(storage, run)
        held = _acquire(storage, run)
        leases = (LeaseRecord(id=held.id, fence=held.fence),)
        done = changed(receipt(storage.blobs, run=run, attempt=run), leases=leases)
        storage.receipts.append(done, result_of(done), time.time())
        storage.staging.release(held.id, time.time())
        shutil.rmtree(storage.quarantine / run)
        storage.runs.finish(run, time.time())


def restart(storage: Storage, run: str) -> None:
    """Open a storage for the first time."""
    with stepping():
        opened(storage.quarantine.parent / run).close()


def reap_dead(storage: Storage, run: str) -> None:
    """Reap what a run that was killed left."""
    pid = os.fork()
    if not pid:
        own = opened(storage.quarantine.parent)
        _begin(own, run)
        _acquire(own, run)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    with stepping():
        reap(storage, time.time())


def set_aside(storage: Storage, run: str) -> None:
    """Scrub a damaged blob."""
    digest, _ = storage.blobs.put(run.encode())
    overwrite_blob(storage.blobs, digest, b"damage")
    with stepping():
        scrub(storage, [blob for blob in storage.blobs.blobs() if blob.digest == digest], 1)


def opened(home: Path) -> Storage:
    """The storage of this home, with the database and as the host that the settings name."""
    settings = load()
    return open_storage(home, database_url=settings.database_url, host=settings.host)


def collect_blobs(storage: Storage, run: str) -> None:
    """Both phases of a collection: an orphan, and media whose retention is over."""
    recorded(storage, run=run, bundle=run)
    storage.blobs.put(run.encode())
    with stepping():
        for _ in range(2):
            collect(storage, Retention({"*": 0}), time.time(), grace_s=0.0, delete_blobs=True)


SCENARIOS: dict[str, Scenario] = {
    each.__name__: each for each in (put, stage, release, record, restart, reap_dead, set_aside, collect_blobs)
}


def _begin(storage: Storage, run: str) -> None:
    questions: list[tuple[str, dict[str, str]]] = [("q1", {})]
    storage.runs.start(RunStart(run, "b1", Digest.of(b"bundle"), TENANT, ENGINE, questions), time.time())
    (storage.quarantine / run).mkdir(parents=True)
    (storage.quarantine / run / "part-0").write_bytes(b"unjudged")
    storage.receipts.open_attempt(draft(run=run, attempt=run), time.time())


def _acquire(storage: Storage, run: str) -> Lease:
    return storage.staging.acquire(artifact(IMAGE), tenant=TENANT, holder=f"{run}/1", now=time.time(), ttl_s=60).lease


_profile: list[Callable[[FrameType, str, Any], None]] = []  # of a process that is to die


@contextlib.contextmanager
def stepping() -> Iterator[None]:
    """What is within has steps, in threads too."""
    for profile in _profile:
        threading.setprofile(profile)
        sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def is_step(called: Any) -> bool:
    """Whether a call of a built-in goes to the kernel's files or to a database."""
    if called.__name__ in _OF_THE_KERNEL:
        return called.__module__ in ("posix", "fcntl")
    return called.__name__ in _OF_A_DATABASE and type(called.__self__).__module__.startswith(("sqlite3", "psycopg"))


def dying_at(number: int, told: int) -> Callable[[FrameType, str, Any], None]:
    """A profile function that tells of the step of this number (from 1), and kills this process before it."""
    left = number

    def profile(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and is_step(called):
            left -= 1
            if not left:
                os.write(told, f"{frame.f_code.co_name}: {called.__name__}".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    return profile


def crash(home: Path, scenario: str, number: int) -> Crash:
    """Kill the scenario before this step, and look at what is left."""
    reading, told = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            storage = opened(home)
            _profile.append(dying_at(number, told))
            SCENARIOS[scenario](storage, f"{scenario}-{number}")
            os._exit(0)
        finally:
            os._exit(1)
    os.close(told)
    with os.fdopen(reading) as telling:
        step = telling.read() or None
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == (0 if step is None else -signal.SIGKILL), f"{scenario} failed by itself before step {number}"
    crashed = Crash(step)
    for each in (home, home / f"{scenario}-{number}"):
        if each.is_dir():
            look(each, crashed)
    return crashed


def look(home: Path, crashed: Crash) -> None:
    """Open what is left, reap; tell what does not hold before and after it."""
    storage = opened(home)
    try:
        crashed.before.extend(finding.rule for finding in invariants(storage, time.time()))
        reap(storage, time.time())
        crashed.after.extend(f"{finding.rule}: {finding.reason}" for finding in invariants(storage, time.time()))
        crashed.after.extend(f"staged: {path.name}" for path in storage.staging.root.rglob("*.*"))
    finally:
        storage.close()


def main(folder: Path, scenario: str) -> None:
    """Every step of one scenario, in order, each on a copy of the same storage."""
    storage = opened(folder / "template")
    storage.blobs.put(IMAGE)
    storage.close()
    number = 0
    while True:
        number += 1
        shutil.copytree(folder / "template", folder / "home")
        crashed = crash(folder / "home", scenario, number)
        shutil.rmtree(folder / "home")
        print(json.dumps(asdict(crashed)), flush=True)
        if crashed.step is None:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
