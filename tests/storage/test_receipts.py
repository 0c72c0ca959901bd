"""Attempts, receipts, runs and their results: all of an end or none of it, and found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.outcome import Outcome
from storage import schema
from storage.home import Storage
from storage.runs import RunStart, RunState
from tests.receipt_samples import (
    COMPLETE,
    CUT_SHORT,
    ENGINE,
    LENGTH,
    NOW,
    RELEASE,
    TENANT,
    changed,
    draft,
    question,
    receipt,
    request_for,
    result_of,
)
from tests.storage.conftest import Dying

QUESTION_DIGEST = request_for(question()).question_digest
IDENTITY = RELEASE.identity()


def start(storage: Storage, run: str = "run-1", questions: tuple[str, ...] = ("q1", "q2")) -> None:
    """A run of questions."""
    labelled = [(question_id, {"expected": "2"}) for question_id in questions]
    storage.runs.start(RunStart(run, "b1", Digest.of(b"bundle"), "acme", ENGINE, labelled), NOW)


def end(
    storage: Storage,
    wire: bytes = COMPLETE,
    *,
    run: str = "run-1",
    question_id: str = "q1",
    attempt: str = "attempt-1",
) -> Digest:
    """An attempt from its start to its receipt."""
    written = receipt(storage.blobs, wire, run=run, question_id=question_id, attempt=attempt)
    storage.receipts.open_attempt(draft(run=run, question_id=question_id, attempt=attempt), NOW - 1)
    return storage.receipts.append(written, result_of(written), NOW)


def rows(storage: Storage) -> dict[str, int]:
    """How many rows each of the tables of an end has."""
    with storage.ledger.read() as tx:
        tables = (schema.receipt, schema.outbox)
        return {table.name: tx.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}


def test_the_end_of_an_attempt_is_found_everywhere(storage: Storage) -> None:
    """Receipt with its bytes as hashed, outbox, result in the run, list."""
    start(storage)
    identity = end(storage)
    named, data = storage.receipts.get(str(identity), tenant=TENANT)
    assert (named, Digest.of(data)) == (identity, identity)
    assert rows(storage) == {"receipt": 1, "outbox": 1}
    assert [result.receipt for result in storage.runs.results("run-1")] == [str(identity)]
    assert [(entry.id, entry.outcome) for entry in storage.receipts.list(tenant=TENANT)] == [
        (identity, Outcome.COMPLETE)
    ]
    assert list(storage.receipts.all(tenant=TENANT)) == [(identity, data)]


def test_an_attempt_has_one_receipt(storage: Storage) -> None:
    """A second end of the same attempt is refused, and so is one that never began."""
    start(storage)
    end(storage)
    again = changed(receipt(storage.blobs), layers=("other",))
    with pytest.raises(InputError, match="attempt-open"):
        storage.receipts.append(again, result_of(again), NOW)
    never = receipt(storage.blobs, attempt="attempt-9", number=9)
    with pytest.raises(InputError, match="attempt-open"):
        storage.receipts.append(never, result_of(never), NOW)
    assert rows(storage) == {"receipt": 1, "outbox": 1}


def test_an_end_that_fails_half_way_left_nothing(storage: Storage) -> None:
    """The result is written first; a refused attempt takes it back."""
    start(storage)
    never = receipt(storage.blobs)
    with pytest.raises(InputError, match="attempt-open"):
        storage.receipts.append(never, result_of(never), NOW)
    assert list(storage.runs.results("run-1")) == []
    assert rows(storage) == {"receipt": 0, "outbox": 0}


DIE_BEFORE_COMMIT = """
import os, signal, sys
from pathlib import Path
from settings.load import load
from storage.home import storage_of
from storage.receipts import append_receipt
from tests.receipt_samples import NOW, draft, receipt, result_of
storage = storage_of(load())
written = receipt(storage.blobs)
storage.receipts.open_attempt(draft(), NOW)
with storage.ledger.write() as tx:
    append_receipt(tx, written, written.to_bytes(), result_of(written), NOW)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_before_the_commit_ended_nothing(
    storage: Storage, home: Path, in_dying_process: Dying
) -> None:
    """All rows were written and none is visible; the attempt is still open and can be ended."""
    start(storage)
    in_dying_process(DIE_BEFORE_COMMIT, str(home))
    assert rows(storage) == {"receipt": 0, "outbox": 0}
    assert list(storage.runs.results("run-1")) == []
    written = receipt(storage.blobs)
    storage.receipts.append(written, result_of(written), NOW)


def test_a_result_must_be_that_of_its_receipt(storage: Storage) -> None:
    """The ledger does not take a result that says something else."""
    start(storage)
    storage.receipts.open_attempt(draft(), NOW)
    written = receipt(storage.blobs)
    with pytest.raises(InputError, match="result-receipt"):
        storage.receipts.append(written, replace(result_of(written), receipt="sha256:" + "0" * 64), NOW)


def test_a_draft_is_abandoned_and_its_attempt_new(storage: Storage) -> None:
    """An attempt cannot begin as anything else, nor twice; in a run that does not exist, see test_acquisitions."""
    start(storage)
    with pytest.raises(InputError, match="attempt-draft"):
        storage.receipts.open_attempt(receipt(storage.blobs), NOW)
    storage.receipts.open_attempt(draft(), NOW)
    for again in (draft(), draft(attempt="attempt-2")):
        with pytest.raises(InputError, match="attempt-id"):
            storage.receipts.open_attempt(again, NOW)


def test_a_receipt_is_found_by_a_unique_beginning(storage: Storage) -> None:
    """With or without the algorithm, at least 8 digits."""
    start(storage)
    identity = end(storage)
    for reference in (identity.hex[:8], f"sha256:{identity.hex[:12]}", identity.hex):
        assert storage.receipts.get(reference, tenant=TENANT)[0] == identity
    for reference, rule in ((identity.hex[:7], "reference"), ("g" * 8, "reference"), ("%" * 8, "reference")):
        with pytest.raises(InputError, match=f"receipt-{rule}"):
            storage.receipts.get(reference, tenant=TENANT)
    unknown = "".join("0" if digit != "0" else "1" for digit in identity.hex[:8])
    with pytest.raises(InputError, match="receipt-unknown"):
        storage.receipts.get(unknown, tenant=TENANT)


def test_an_answer_is_found_by_tenant_question_and_identity(storage: Storage) -> None:
    """All three must fit; the latest is given."""
    start(storage)
    end(storage)
    latest = end(storage, question_id="q2", attempt="attempt-2")
    found = storage.receipts.find_answer("acme", QUESTION_DIGEST, IDENTITY)
    assert found is not None
    assert (found.receipt, found.result.answer) == (latest, "Two circles")
    other = Digest.of(b"other")
    assert storage.receipts.find_answer("umbrella", QUESTION_DIGEST, IDENTITY) is None
    assert storage.receipts.find_answer("acme", other, IDENTITY) is None
    assert storage.receipts.find_answer("acme", QUESTION_DIGEST, other) is None


def test_what_its_budget_ended_is_answered_from_the_ledger_too_but_not_a_failure(storage: Storage) -> None:
    """The engine would say the same again to the one, and may not to the other."""
    start(storage)
    end(storage, CUT_SHORT)
    assert storage.receipts.find_answer("acme", QUESTION_DIGEST, IDENTITY) is None
    limited = end(storage, LENGTH, question_id="q2", attempt="attempt-2")
    found = storage.receipts.find_answer("acme", QUESTION_DIGEST, IDENTITY)
    assert found is not None
    assert (found.receipt, found.result.answer, found.result.partial) == (limited, None, "Two circles")


def test_results_come_in_the_order_of_the_bundle(storage: Storage) -> None:
    """Whichever ended first, and across pages."""
    names = tuple(f"q{number}" for number in range(1_005))
    start(storage, questions=names)
    end(storage, question_id="q1004", attempt="attempt-2")
    end(storage, question_id="q3", attempt="attempt-3")
    assert [result.id for result in storage.runs.results("run-1")] == ["q3", "q1004"]
    run = storage.runs.get("run", tenant=TENANT)
    assert (run.questions, run.done, run.state) == (1_005, 2, RunState.RUNNING)


def test_a_run_is_known_by_one_id(storage: Storage) -> None:
    """It starts once, ends once, and is found by a unique beginning; wildcards are letters like any other."""
    start(storage)
    with pytest.raises(InputError, match="run-id"):
        start(storage)
    start(storage, "run-12")
    assert storage.runs.get("run-1", tenant=TENANT).id == "run-1"
    for reference, rule in (("run", "run-ambiguous"), ("%", "run-unknown"), ("walk", "run-unknown")):
        with pytest.raises(InputError, match=rule):
            storage.runs.get(reference, tenant=TENANT)
    storage.runs.finish("run-1", NOW + 1)
    assert storage.runs.get("run-1", tenant=TENANT).ended_at == NOW + 1
    assert [run.id for run in storage.runs.list(state=RunState.RUNNING)] == ["run-12"]


def test_receipts_of_one_run_are_told_apart(storage: Storage) -> None:
    """list and all take a run."""
    start(storage)
    start(storage, "run-2")
    end(storage)
    second = end(storage, run="run-2", attempt="attempt-2")
    assert [entry.id for entry in storage.receipts.list(run="run-2", tenant=TENANT)] == [second]
    assert [identity for identity, _ in storage.receipts.all(run="run-2", tenant=TENANT)] == [second]


def test_another_tenant_sees_neither_run_nor_receipt(storage: Storage) -> None:
    """Lists are empty and references unknown for every tenant but the one whose they are."""
    start(storage)
    identity = end(storage)
    assert storage.receipts.list(tenant="other") == []
    assert list(storage.receipts.all(tenant="other")) == []
    with pytest.raises(InputError, match="receipt-unknown"):
        storage.receipts.get(str(identity), tenant="other")
    with pytest.raises(InputError, match="run-unknown"):
        storage.runs.get("run-1", tenant="other")
