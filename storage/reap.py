"""Collect what died: leases, staged files, runs with their attempts, quarantine, half-written files.

Safe beside live runs: only what belongs to a dead process, has expired, or is named by nothing is touched. Each step
may be repeated, so a reap that is itself killed is completed by the next.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import InputError
from storage.disk_errors import disk_errors
from storage.ending import abandon_run
from storage.home import Storage
from storage.leases import give_up_host
from storage.process_mark import Liveness, liveness
from storage.runs import RunState
from storage.staging import Swept

_log = logging.getLogger(__name__)
_UNKNOWN_GRACE_S = 3_600  # for quarantine that names no run of this ledger


@dataclass(frozen=True, slots=True)
class Reaped:
    """How much of each was collected, and how many dead runs could not be closed (their draft is unreadable)."""

    leases_expired: int
    files_unlinked: int
    runs_abandoned: int
    attempts_abandoned: int
    questions_abandoned: int
    quarantine_removed: int
    incoming_removed: int
    runs_unreadable: int = 0


def reap(storage: Storage, now: float, gone: Collection[str] = ()) -> Reaped:
    """Collect everything that died here, and what was held on hosts that are `gone` for good: other hosts' processes
    cannot be judged from here.

    Raises InputError (`host-here`) where this host is said to be gone, and StorageError; what was collected until then
    stays collected.
    """
    if storage.ledger.host in gone:
        raise InputError("host-here", f"{storage.ledger.host} is this host, which is not gone")
    swept = storage.staging.reconcile(now)
    for host in gone:
        with storage.leases.write() as tx:
            swept += Swept(expired=give_up_host(tx, host, now))
    attempts = questions = runs = unreadable = 0
    for run in storage.runs.list(state=RunState.RUNNING, limit=2**31):
        if liveness(run.process, storage.ledger.host, gone) is not Liveness.DEAD:
            continue
        try:
            with storage.ledger.write() as tx:
                ended = abandon_run(tx, run, now, storage.ledger.host, gone)
        except InputError as error:  # a draft that cannot be read: the others are not to wait for it
            _log.warning("run %s cannot be closed: %s", run.id, error)
            unreadable += 1
            continue
        if ended is not None:
            runs, attempts, questions = runs + 1, attempts + ended.attempts, questions + ended.questions
    return Reaped(
        leases_expired=swept.expired,
        files_unlinked=swept.unlinked,
        runs_abandoned=runs,
        attempts_abandoned=attempts,
        questions_abandoned=questions,
        quarantine_removed=_clear_quarantine(storage, now),
        incoming_removed=storage.blobs.remove_abandoned(),
        runs_unreadable=unreadable,
    )


def _clear_quarantine(storage: Storage, now: float) -> int:
    """Remove the quarantine of every run that does not run. A run's row comes before its folder, so the order here
    is the folders first: one that appears later has a row that is seen."""
    if not storage.quarantine.is_dir():
        return 0
    with disk_errors("clear the quarantine"):
        entries = list(storage.quarantine.iterdir())
        states = storage.runs.states([path.name for path in entries])
        return sum(_discard(path) for path in entries if is_left_over(path, states.get(path.name), now))


def is_left_over(path: Path, state: RunState | None, now: float) -> bool:
    """Whether what lies in the quarantine under a run's name is nobody's, as the ledger has that run's state."""
    if state is None:
        return now - path.lstat().st_mtime > _UNKNOWN_GRACE_S
    return state is not RunState.RUNNING


def _discard(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True
