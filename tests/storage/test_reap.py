"""Reap: what a killed run left is closed and removed, and nothing of a live run is touched."""

from __future__ import annotations

import os
from pathlib import Path

from contracts.digest import Digest
from contracts.outcome import Outcome
from contracts.receipt import parse_receipt
from storage.home import Storage
from storage.reap import Reaped, reap
from storage.runs import RunStart, RunState
from storage.verify import VerdictName, verify_receipt
from tests.receipt_samples import ENGINE, NOW, TENANT, artifact, draft
from tests.storage.conftest import Dying

NOTHING = Reaped(0, 0, 0, 0, 0, 0, 0)

RUN_AND_DIE = """
import os, signal, sys
from pathlib import Path
from contracts.digest import Digest
from settings.load import load
from storage.home import storage_of
from storage.incoming import open_named
from storage.runs import RunStart
from tests.receipt_samples import ENGINE, NOW, artifact, draft, receipt, result_of
home = Path(sys.argv[1])
storage = storage_of(load())
questions = [("q1", {}), ("q2", {"expected": "2"}), ("q3", {})]
storage.runs.start(RunStart("run-1", "b1", Digest.of(b"bundle"), "acme", ENGINE, questions), NOW)
(storage.quarantine / "run-1").mkdir(parents=True)
(storage.quarantine / "run-1" / "part-0").write_bytes(b"unjudged")
storage.blobs.put(b"an image")
done = receipt(storage.blobs, question_id="q1", attempt="a1")
storage.receipts.open_attempt(draft(question_id="q1", attempt="a1"), NOW)
storage.receipts.append(done, result_of(done), NOW)
storage.receipts.open_attempt(draft(question_id="q2", attempt="a2"), NOW)
storage.staging.acquire(artifact(b"an image"), tenant="acme", holder="run-1/a2", now=NOW, ttl_s=1e9)
open_named(home / "blobs" / "sha256")
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_over(home: Path) -> list[Path]:
    """Files in staging and quarantine, and half-written ones anywhere."""
    folders = (home / "staging", home / "quarantine")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return files + list(home.rglob(".incoming-*"))


def test_a_killed_run_is_closed_and_leaves_nothing(storage: Storage, home: Path, in_dying_process: Dying) -> None:
    """Its answered question keeps its receipt, its open attempt gets one, its untried question says so; twice is
    like once."""
    in_dying_process(RUN_AND_DIE, str(home))
    assert len(left_over(home)) == 3
    reaped = reap(storage, NOW + 5)
    assert reaped == Reaped(
        leases_expired=1,
        files_unlinked=1,
        runs_abandoned=1,
        attempts_abandoned=1,
        questions_abandoned=1,
        quarantine_removed=1,
        incoming_removed=1,
    )
    assert left_over(home) == []
    assert storage.staging.active() == []
    results = list(storage.runs.results("run-1"))
    assert [result.outcome for result in results] == [Outcome.COMPLETE, Outcome.ABANDONED, Outcome.ABANDONED]
    assert [result.rule for result in results] == [None, "process-died", "run-died"]
    assert results[1].labels == {"expected": "2"}
    assert results[2].receipt is None
    assert storage.runs.get("run-1", tenant=TENANT).state is RunState.ABANDONED
    assert reap(storage, NOW + 6) == NOTHING


def test_the_receipt_of_an_abandoned_attempt_verifies(storage: Storage, home: Path, in_dying_process: Dying) -> None:
    """It is the draft, ended at the time of the reap."""
    in_dying_process(RUN_AND_DIE, str(home))
    reap(storage, NOW + 5)
    identity, data = storage.receipts.get(list(storage.runs.results("run-1"))[1].receipt or "", tenant=TENANT)
    document = parse_receipt(data)
    assert (document.outcome, document.attempt.id) == (Outcome.ABANDONED, "a2")
    assert document.finished_at > document.started_at
    assert verify_receipt(identity, data, storage.blobs).verdict is VerdictName.VALID


def test_nothing_of_a_live_run_is_touched(storage: Storage) -> None:
    """This process runs: its run, attempt, lease, quarantine and half-written file stay."""
    questions: list[tuple[str, dict[str, str]]] = [("q1", {})]
    storage.runs.start(RunStart("run-1", "b1", Digest.of(b"bundle"), "acme", ENGINE, questions), NOW)
    storage.receipts.open_attempt(draft(), NOW)
    storage.blobs.put(b"an image")
    held = storage.staging.acquire(artifact(b"an image"), tenant="acme", holder="run-1/1", now=NOW, ttl_s=30)
    unjudged = storage.quarantine / "run-1" / "part-0"
    unjudged.parent.mkdir(parents=True)
    unjudged.write_bytes(b"unjudged")
    assert reap(storage, NOW + 5) == NOTHING
    assert held.path.exists()
    assert unjudged.exists()
    assert storage.runs.get("run-1", tenant=TENANT).state is RunState.RUNNING


def test_a_run_whose_attempt_another_process_makes_is_not_dead(
    storage: Storage, home: Path, in_dying_process: Dying
) -> None:
    """Its starter died, but somebody works for it: it is left until that process is gone too."""
    in_dying_process(RUN_AND_DIE, str(home))
    storage.receipts.open_attempt(draft(question_id="q3", attempt="a3"), NOW)
    assert reap(storage, NOW + 5).runs_abandoned == 0
    assert storage.runs.get("run-1", tenant=TENANT).state is RunState.RUNNING
    assert (storage.quarantine / "run-1").exists()


def test_quarantine_that_names_no_run_goes_after_an_hour(storage: Storage) -> None:
    """It may be about to be known; an hour later it is not."""
    stray = storage.quarantine / "stray"
    stray.mkdir(parents=True)
    os.utime(stray, (NOW, NOW))
    assert reap(storage, NOW + 3_599).quarantine_removed == 0
    assert reap(storage, NOW + 3_601).quarantine_removed == 1
    assert not stray.exists()
