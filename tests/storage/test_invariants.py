"""Each way in which a storage's parts can disagree is found by its name, and a storage in order has none."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.digest import Digest
from storage.home import Storage
from storage.incoming import open_named
from storage.invariants import LEFT_BEHIND, invariants
from storage.reap import reap
from storage.runs import RunStart
from tests.blob_files import blob_file
from tests.receipt_samples import COMPLETE, ENGINE, IMAGE, NOW, artifact, draft
from tests.storage.conftest import Dying
from tests.storage.recorded import recorded

HOUR = 3_600.0


def rules(storage: Storage, now: float | None = None) -> set[str]:
    """What is found."""
    return {finding.rule for finding in invariants(storage, time.time() if now is None else now)}


def held(storage: Storage) -> Path:
    """A file that this process holds."""
    storage.blobs.put(IMAGE)
    return storage.staging.acquire(artifact(IMAGE), tenant="acme", holder="r/1", now=time.time(), ttl_s=60).path


def test_a_storage_in_order_has_no_findings(storage: Storage) -> None:
    """Nor has one with an open run that works: its attempt is open, its file held, its quarantine there."""
    assert rules(storage) == set()
    recorded(storage)
    storage.runs.start(RunStart("run-2", "b1", Digest.of(b"b"), "acme", ENGINE, [("q1", {})]), time.time())
    storage.receipts.open_attempt(draft(run="run-2", attempt="a2"), time.time())
    (storage.quarantine / "run-2").mkdir(parents=True)
    held(storage)
    assert rules(storage) == set()


def _sql(statement: str, *, leases: bool = False) -> Callable[[Storage], None]:
    def change(storage: Storage) -> None:
        with (storage.leases if leases else storage.ledger).write() as tx:
            tx.exec_driver_sql(statement)

    return change


def _damage_staged(storage: Storage) -> None:
    path = held(storage)
    path.unlink()
    path.write_bytes(b"other")


def _lease_alone(storage: Storage) -> None:
    held(storage)
    _forget_copies(storage)


_forget_copies = _sql("DELETE FROM staged_copy", leases=True)
_end_leases = _sql("UPDATE lease SET state = 'expired'", leases=True)

DAMAGES: dict[str, Callable[[Storage], object]] = {
    "question-pending": _sql("UPDATE question SET state = 'pending'"),
    "attempt-open": _sql("UPDATE attempt SET state = 'open'"),
    "attempt-draft": _sql("UPDATE attempt SET draft = document FROM receipt"),
    "receipt-missing": _sql("DELETE FROM receipt"),
    "receipt-attempt": _sql("UPDATE attempt SET outcome = 'refused'"),
    "outbox-missing": _sql("DELETE FROM outbox"),
    "blob-missing": lambda storage: blob_file(storage.blobs, Digest.of(COMPLETE)).unlink(),
    "staged-missing": lambda storage: held(storage).unlink(),
    "staged-digest": _damage_staged,
    "staged-lease": _lease_alone,
}


@pytest.mark.parametrize("rule", DAMAGES)
def test_damage_is_found_by_its_name(storage: Storage, rule: str) -> None:
    """It is no left-over: reap does not make it good."""
    recorded(storage)
    if rule == "receipt-missing":
        _sql("DELETE FROM outbox")(storage)
    DAMAGES[rule](storage)
    assert rule in rules(storage)
    assert rule not in LEFT_BEHIND


def _row_alone(storage: Storage) -> None:
    held(storage).unlink()
    _end_leases(storage)


def _file_alone(storage: Storage) -> None:
    held(storage)
    _forget_copies(storage)
    _end_leases(storage)


LEFT: dict[str, Callable[[Storage], object]] = {
    "staged-row": _row_alone,
    "staged-unknown": _file_alone,
    "left-over": lambda storage: (storage.quarantine / "run-1").mkdir(parents=True),
}


@pytest.mark.parametrize("rule", LEFT)
def test_what_is_left_behind_is_found_and_reap_ends_it(storage: Storage, rule: str) -> None:
    """A row without a file, a file without a row, a folder of a run that has ended."""
    recorded(storage)
    LEFT[rule](storage)
    assert rules(storage) == {rule}
    assert rule in LEFT_BEHIND
    reap(storage, time.time())
    assert rules(storage) == set()


def test_a_lease_is_overdue_after_its_time(storage: Storage) -> None:
    """Its file is not missing then, whatever became of it."""
    held(storage)
    assert rules(storage, time.time() + HOUR) == {"lease-overdue"}


KILLED = """
import os, signal, time
from pathlib import Path
from contracts.digest import Digest
from settings.load import load
from storage.home import storage_of
from storage.incoming import open_named
from storage.runs import RunStart
from tests.receipt_samples import ENGINE, IMAGE, artifact
storage = storage_of(load())
storage.runs.start(RunStart("run-9", "b1", Digest.of(b"b"), "acme", ENGINE, [("q1", {})]), time.time())
storage.blobs.put(IMAGE)
storage.staging.acquire(artifact(IMAGE), tenant="acme", holder="run-9/1", now=time.time(), ttl_s=60)
open_named(load().home / "blobs" / "sha256")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_found_and_reap_ends_it(storage: Storage, in_dying_process: Dying) -> None:
    """Its run, its lease, its half-written file: nothing else, and nothing after reap."""
    in_dying_process(KILLED)
    assert rules(storage) == {"run-dead", "lease-orphaned", "left-over"}
    reap(storage, time.time())
    assert rules(storage) == set()


def test_a_live_writer_s_file_is_not_left_over(storage: Storage, home: Path) -> None:
    """Ours, for one."""
    storage.blobs.put(IMAGE)
    open_named(home / "blobs" / "sha256")
    assert rules(storage, NOW) == set()
