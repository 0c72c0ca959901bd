"""Collect what died: leases, staged files, runs with their attempts, quarantine, half-written files.

Safe beside live runs: only what belongs to a dead process, has expired, or is named by nothing is touched. Each step
may be repeated, so a reap that is itself killed is completed by the next.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sqlalchemy import Connection

from contracts.receipt import Receipt, parse_receipt, receipt_id, timestamp
from contracts.result import QuestionResult
from storage.disk_errors import disk_errors
from storage.home import Storage
from storage.incoming import remove_abandoned
from storage.process_mark import Liveness, liveness
from storage.receipts import OpenAttempt, append_receipt, open_attempts
from storage.runs import Run, RunState, abandon_pending, end_run, labels_of

_UNKNOWN_GRACE_S = 3_600  # for quarantine that names no run of this ledger


@dataclass(frozen=True, slots=True)
class Reaped:
    """How much of each was collected."""

    leases_expired: int
    files_unlinked: int
    runs_abandoned: int
    attempts_abandoned: int
    questions_abandoned: int
    quarantine_removed: int
    incoming_removed: int


def reap(storage: Storage, now: float) -> Reaped:
    """Collect everything that died. Raises StorageError; what was collected until then stays collected."""
    swept = storage.staging.reconcile(now)
    attempts = questions = runs = 0
    for run in storage.runs.list(state=RunState.RUNNING, limit=2**31):
        if liveness(run.process) is not Liveness.DEAD:
            continue
        if (abandoned := _abandon(storage, run, now)) is not None:
            runs, attempts, questions = runs + 1, attempts + abandoned[0], questions + abandoned[1]
    with disk_errors("list the store"):
        halves = sum(remove_abandoned(folder) for folder in storage.blobs.folders())
    return Reaped(
        leases_expired=swept.expired,
        files_unlinked=swept.unlinked,
        runs_abandoned=runs,
        attempts_abandoned=attempts,
        questions_abandoned=questions,
        quarantine_removed=_clear_quarantine(storage, now),
        incoming_removed=halves,
    )


def _abandon(storage: Storage, run: Run, now: float) -> tuple[int, int] | None:
    """Close a dead run in one transaction; returns how many attempts and untried questions it had, None if it is
    not dead after all."""
    with storage.ledger.write() as tx:
        attempts = open_attempts(tx, run.id)
        if any(liveness(attempt.process) is not Liveness.DEAD for attempt in attempts):
            return None  # another process works for this run; it will finish it, or die and be found
        if not end_run(tx, run.id, RunState.ABANDONED, now):
            return None
        for attempt in attempts:
            _close(tx, attempt, now)
        return len(attempts), abandon_pending(tx, run)


def _close(tx: Connection, attempt: OpenAttempt, now: float) -> None:
    draft = parse_receipt(attempt.draft)
    receipt: Receipt = msgspec.structs.replace(draft, finished_at=timestamp(now))
    data = receipt.to_bytes()
    result = QuestionResult.of_receipt(
        receipt,
        receipt_id(data),
        text=None,
        seconds=round(max(0.0, now - attempt.started_at), 3),
        labels=labels_of(tx, attempt.run, attempt.question_id),
    )
    append_receipt(tx, receipt, data, result, now)


def _clear_quarantine(storage: Storage, now: float) -> int:
    """Remove the quarantine of every run that does not run. A run's row comes before its folder, so the order here
    is the folders first: one that appears later has a row that is seen."""
    if not storage.quarantine.is_dir():
        return 0
    with disk_errors("clear the quarantine"):
        entries = list(storage.quarantine.iterdir())
        states = storage.runs.states([path.name for path in entries])
        return sum(_discard(path) for path in entries if _is_left_over(path, states.get(path.name), now))


def _is_left_over(path: Path, state: RunState | None, now: float) -> bool:
    if state is None:
        return now - path.lstat().st_mtime > _UNKNOWN_GRACE_S
    return state is not RunState.RUNNING


def _discard(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True
