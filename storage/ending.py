"""How a run ends: its open attempts are closed, its untried questions told, all in one transaction.

An attempt that is still open has a draft, the receipt that is true if nobody comes back; it is closed with exactly
that. So it is for a process that died (reap) and for a run that was canceled or failed while it closed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from contracts.outcome import Outcome
from contracts.receipt import Receipt, parse_receipt, receipt_id, timestamp
from contracts.result import QuestionResult
from storage.process_mark import Liveness, liveness
from storage.receipts import OpenAttempt, append_receipt, open_attempts
from storage.runs import Run, RunState, end_pending, end_run, labels_of, lock_running

_DIED = (Outcome.ABANDONED, "run-died", "the run's process died before this question was tried")
_CANCELED = (Outcome.CANCELED, "canceled", "the run was canceled before this question was tried")


@dataclass(frozen=True, slots=True)
class Ended:
    """How many attempts were closed with their drafts, and how many questions were never tried."""

    attempts: int
    questions: int


def abandon_run(tx: Connection, run: Run, now: float, host: str, gone: Collection[str] = ()) -> Ended | None:
    """End the run of a dead process; None if it is not dead after all, or has ended. `host` and `gone` are as for
    `liveness`."""
    if not lock_running(tx, run.id):
        return None
    attempts = open_attempts(tx, run.id)  # and nobody adds one, since the run is locked
    if any(liveness(each.process, host, gone) is not Liveness.DEAD for each in attempts):
        return None  # another process works for this run; it will finish it, or die and be found
    end_run(tx, run.id, RunState.ABANDONED, now)
    return _ended(tx, run, attempts, now, _DIED)


def finish_run(tx: Connection, run: Run, now: float) -> Ended:
    """End a run of this process, whatever it still has open."""
    lock_running(tx, run.id)
    end_run(tx, run.id, RunState.FINISHED, now)
    return _ended(tx, run, open_attempts(tx, run.id), now, _CANCELED)


def _ended(
    tx: Connection, run: Run, attempts: list[OpenAttempt], now: float, untried: tuple[Outcome, str, str]
) -> Ended:
    for attempt in attempts:
        _close(tx, attempt, now)
    return Ended(len(attempts), end_pending(tx, run, *untried))


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
