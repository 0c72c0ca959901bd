"""Runs and their questions: what was asked for, in order, and how each ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError as DuplicateRow

from contracts.digest import Digest, wire_json
from contracts.errors import InputError
from contracts.lease import ProcessMark
from contracts.outcome import Outcome
from contracts.result import QuestionResult, ResultEngine
from storage.database import Database, begins_with
from storage.process_mark import this_process
from storage.schema import question as questions
from storage.schema import run as runs

_ROWS_AT_ONCE = 1_000


class RunState(str, Enum):
    """`ABANDONED`: the process died and reap closed the run."""

    RUNNING = "running"
    FINISHED = "finished"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run of a bundle. `questions` are their ids with their labels, in the bundle's order."""

    id: str
    bundle_id: str
    bundle_digest: Digest
    tenant: str
    engine: ResultEngine
    questions: Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the ledger has it. Times are epoch seconds; `done` of `questions` have a result."""

    id: str
    bundle_id: str
    bundle_digest: Digest
    tenant: str
    engine: ResultEngine
    state: RunState
    started_at: float
    ended_at: float | None
    process: ProcessMark
    questions: int
    done: int


class Runs:
    """The ledger's runs. Raises StorageError where the ledger fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, run: RunStart, now: float) -> None:
        """Write a run of this process and all its questions. Raises InputError for an id that exists."""
        row = {
            "id": run.id,
            "bundle_id": run.bundle_id,
            "bundle_digest": str(run.bundle_digest),
            "tenant": run.tenant,
            "engine": _json(asdict(run.engine)),
            "state": RunState.RUNNING.value,
            "started_at": now,
            **asdict(this_process(self._database.host)),
        }
        with self._database.write() as tx:
            try:
                tx.execute(insert(runs).values(**row))
                for start in range(0, len(run.questions), _ROWS_AT_ONCE):
                    tx.execute(insert(questions), list(_question_rows(run, start)))
            except DuplicateRow as error:
                raise InputError("run-id", f"run {run.id} exists, or names a question twice") from error

    def finish(self, run_id: str, now: float) -> None:
        """Close a run: all of its questions that will have a result have one."""
        with self._database.write() as tx:
            end_run(tx, run_id, RunState.FINISHED, now)

    def get(self, run_id: str, *, tenant: str) -> Run:
        """One run of a tenant, by its id or a unique beginning of it. Raises InputError if there is not exactly one."""
        with self._database.read() as tx:
            query = _runs().where(begins_with(runs.c.id, run_id), runs.c.tenant == tenant)
            found = [_run(row) for row in tx.execute(query.limit(2))]
        exact = [run for run in found if run.id == run_id]
        if len(found) != 1 and not exact:
            raise InputError("run-unknown" if not found else "run-ambiguous", f"no single run begins with {run_id!r}")
        return (exact or found)[0]

    def list(self, *, state: RunState | None = None, limit: int = 100) -> list[Run]:
        """Runs, latest first."""
        query = _runs().order_by(runs.c.started_at.desc()).limit(limit)
        if state is not None:
            query = query.where(runs.c.state == state.value)
        with self._database.read() as tx:
            return [_run(row) for row in tx.execute(query)]

    def states(self, run_ids: Sequence[str]) -> dict[str, RunState]:
        """The states of those of the runs that the ledger knows."""
        query = select(runs.c.id, runs.c.state).where(runs.c.id.in_(run_ids))
        with self._database.read() as tx:
            return {row.id: RunState(row.state) for row in tx.execute(query)}

    def results(self, run_id: str) -> Iterator[QuestionResult]:
        """The results so far, in the bundle's order, a page at a time."""
        position = -1
        while True:
            query = select(questions.c.position, questions.c.result).order_by(questions.c.position)
            page = query.where(questions.c.run_id == run_id, questions.c.position > position).limit(_ROWS_AT_ONCE)
            with self._database.read() as tx:
                rows = tx.execute(page).all()
            yield from (read_result(row.result) for row in rows if row.result is not None)
            if len(rows) < _ROWS_AT_ONCE:
                return
            position = rows[-1].position


def is_running(tx: Connection, run_id: str) -> bool:
    """Whether a run has not ended; nor does it until the transaction has."""
    state = tx.execute(select(runs.c.state).where(runs.c.id == run_id).with_for_update(read=True)).scalar()
    return state == RunState.RUNNING.value


def lock_running(tx: Connection, run_id: str) -> bool:
    """Whether a run has not ended; until the transaction has, nobody else ends it or begins an attempt of it."""
    state = tx.execute(select(runs.c.state).where(runs.c.id == run_id).with_for_update()).scalar()
    return state == RunState.RUNNING.value


def end_run(tx: Connection, run_id: str, state: RunState, now: float) -> bool:
    """End a run; False if it had already ended."""
    ending = update(runs).where(runs.c.id == run_id, runs.c.state == RunState.RUNNING.value)
    return tx.execute(ending.values(state=state.value, ended_at=now)).rowcount == 1


def write_result(tx: Connection, run_id: str, result: QuestionResult) -> str:
    """Write a question's result, over an earlier one of the same run; returns its JSON."""
    document = _json(result.to_json())
    writing = update(questions).where(questions.c.run_id == run_id, questions.c.question_id == result.id)
    if tx.execute(writing.values(state="done", result=document)).rowcount != 1:
        raise InputError("question-unknown", f"run {run_id} has no question {result.id}")
    return document


def end_pending(tx: Connection, run: Run, outcome: Outcome, rule: str, reason: str) -> int:
    """Give every question that was not tried a result that says so; returns how many."""
    rows = tx.execute(select(questions).where(questions.c.run_id == run.id, questions.c.state == "pending")).all()
    for row in rows:
        labels = json.loads(row.labels)
        write_result(tx, run.id, QuestionResult.untried(row.question_id, outcome, rule, reason, labels, run.engine))
    return len(rows)


def labels_of(tx: Connection, run_id: str, question_id: str) -> dict[str, Any]:
    """The labels of a question."""
    query = select(questions.c.labels).where(questions.c.run_id == run_id, questions.c.question_id == question_id)
    labels: dict[str, Any] = json.loads(tx.execute(query).scalar_one())
    return labels


def read_result(document: str) -> QuestionResult:
    """A result as the ledger holds it."""
    return QuestionResult.from_json(json.loads(document))


def _runs() -> Any:
    own = questions.c.run_id == runs.c.id
    total = select(func.count()).where(own).scalar_subquery().label("total")
    done = select(func.count()).where(own, questions.c.state == "done").scalar_subquery().label("done")
    return select(runs, total, done)


def _question_rows(run: RunStart, start: int) -> Iterator[dict[str, Any]]:
    for position, (question_id, labels) in enumerate(run.questions[start : start + _ROWS_AT_ONCE], start):
        yield {
            "run_id": run.id,
            "position": position,
            "question_id": question_id,
            "labels": _json(dict(labels)),
            "state": "pending",
        }


def _run(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        bundle_id=row.bundle_id,
        bundle_digest=Digest.parse(row.bundle_digest),
        tenant=row.tenant,
        engine=ResultEngine(**json.loads(row.engine)),
        state=RunState(row.state),
        started_at=row.started_at,
        ended_at=row.ended_at,
        process=ProcessMark(row.host, row.boot_id, row.pid_namespace, row.pid, row.pid_start),
        questions=row.total,
        done=row.done,
    )


def _json(value: Any) -> str:
    return wire_json(value).decode()
