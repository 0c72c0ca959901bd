"""Attempts and receipts. An attempt has a row from its start; its end, its receipt, the outbox's row and the
question's result are one transaction: either all of them happened or none did.

The row of an open attempt holds a draft: the receipt that is true if its process dies now. Reap closes the attempt
with it. Who asks for receipts says for which tenant: one can neither see nor learn of another's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update
from sqlalchemy.exc import IntegrityError as DuplicateRow

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.lease import ProcessMark
from contracts.outcome import ENGINE_ANSWERED, Outcome
from contracts.receipt import Receipt, receipt_id
from contracts.result import QuestionResult
from storage.acquisitions import AttemptFacts, PartAcquisition, append_acquisitions
from storage.database import Database, begins_with
from storage.fences import fenced_write
from storage.process_mark import this_process
from storage.runs import is_running, read_result, write_result
from storage.schema import attempt as attempts
from storage.schema import outbox
from storage.schema import receipt as receipts

_PREFIX = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ReceiptEntry:
    """One line of the list of receipts. `created_at` is epoch seconds."""

    id: Digest
    run: str
    question_id: str
    tenant: str
    outcome: Outcome
    created_at: float


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """A receipt whose stream was whole, its bytes, and the result that was told then."""

    receipt: Digest
    data: bytes
    result: QuestionResult


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt that has not ended, with its draft's bytes."""

    id: str
    run: str
    question_id: str
    draft: bytes
    started_at: float
    process: ProcessMark


class Receipts:
    """The ledger's attempts and receipts; `leases` is where the leases are that receipts name.

    Raises StorageError where the ledger fails.
    """

    def __init__(self, database: Database, leases: Database) -> None:
        self._database = database
        self._leases = leases

    def open_attempt(self, draft: Receipt, now: float, acquired: Sequence[PartAcquisition] = ()) -> None:
        """Write that an attempt began, and what it acquired. `draft` has the outcome `abandoned` and what is known so
        far. Raises InputError for an attempt that exists, and where its run has ended or does not exist."""
        if draft.outcome is not Outcome.ABANDONED:
            raise InputError("attempt-draft", f"expected a draft that is abandoned, got {draft.outcome.value}")
        row = {
            "id": draft.attempt.id,
            "run_id": draft.run,
            "question_id": draft.question_id,
            "number": draft.attempt.number,
            "state": "open",
            "draft": draft.to_bytes(),
            "started_at": now,
            **asdict(this_process(self._database.host)),
        }
        with self._database.write() as tx:
            if not is_running(tx, draft.run):
                raise InputError("attempt-run", f"run {draft.run} has ended or does not exist: it begins no attempt")
            try:
                tx.execute(insert(attempts).values(**row))
            except DuplicateRow as error:
                reason = f"attempt {draft.attempt.number} of {draft.question_id} exists"
                raise InputError("attempt-id", reason) from error
            append_acquisitions(tx, _facts(draft), acquired, now)

    def append(self, receipt: Receipt, result: QuestionResult, now: float) -> Digest:
        """Close the receipt's attempt and write the receipt, its outbox row and the question's result, at once.

        Returns the receipt's id. Raises InputError if the attempt is not open or the result is not this receipt's, and
        LeaseError (`lease-lost`), with nothing written, for an answer whose evidence was taken away meanwhile.
        """
        data = receipt.to_bytes()
        identity = receipt_id(data)
        if (result.receipt, result.outcome, result.id) != (str(identity), receipt.outcome, receipt.question_id):
            raise InputError("result-receipt", f"the result is not that of receipt {identity}")
        fences = receipt.leases if receipt.outcome in ENGINE_ANSWERED else ()
        with fenced_write(self._database, self._leases, fences) as tx:
            append_receipt(tx, receipt, data, result, now)
        return identity

    def get(self, reference: str, *, tenant: str) -> tuple[Digest, bytes]:
        """A receipt's id and bytes by its id or a unique beginning of at least 8 hex digits.

        Raises InputError (`receipt-reference`, `receipt-unknown`, `receipt-ambiguous`).
        """
        form = _PREFIX.fullmatch(reference)
        if form is None:
            raise InputError("receipt-reference", "expected sha256:<hex> or at least 8 hex digits of a receipt's id")
        query = select(receipts.c.id, receipts.c.document).where(begins_with(receipts.c.id, f"sha256:{form[1]}"))
        query = query.where(receipts.c.tenant == tenant).limit(2)
        with self._database.read() as tx:
            rows = tx.execute(query).all()
        if len(rows) != 1:
            rule = "receipt-ambiguous" if rows else "receipt-unknown"
            raise InputError(rule, f"no single receipt begins with {form[1]}")
        return Digest.parse(rows[0].id), rows[0].document

    def all(self, *, tenant: str, run: str | None = None) -> Iterator[tuple[Digest, bytes]]:
        """Every receipt's id and bytes, oldest first, a page at a time."""
        position = 0
        while True:
            page = _of(select(receipts.c.position, receipts.c.id, receipts.c.document), tenant, run)
            page = page.where(receipts.c.position > position).order_by(receipts.c.position).limit(_ROWS_AT_ONCE)
            with self._database.read() as tx:
                rows = tx.execute(page).all()
            yield from ((Digest.parse(row.id), row.document) for row in rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            position = rows[-1].position

    def list(self, *, tenant: str, run: str | None = None, limit: int = 100) -> list[ReceiptEntry]:
        """The latest receipts, latest first."""
        query = _of(select(receipts), tenant, run).order_by(receipts.c.position.desc()).limit(limit)
        with self._database.read() as tx:
            return [_entry(row) for row in tx.execute(query)]

    def find_answer(self, tenant: str, question_digest: Digest, identity: Digest) -> FoundAnswer | None:
        """This tenant's latest answer where this identity's stream for the question was whole, or None.

        As the rows have it: who reuses it verifies it first.
        """
        query = (
            select(receipts.c.id, receipts.c.document, attempts.c.result)
            .join(receipts, receipts.c.attempt_id == attempts.c.id)
            .where(
                receipts.c.question_digest == str(question_digest),
                receipts.c.identity == str(identity),
                receipts.c.tenant == tenant,
                receipts.c.outcome.in_([outcome.value for outcome in ENGINE_ANSWERED]),
            )
            .order_by(receipts.c.position.desc())
            .limit(1)
        )
        with self._database.read() as tx:
            row = tx.execute(query).one_or_none()
        return None if row is None else FoundAnswer(Digest.parse(row.id), row.document, read_result(row.result))


def open_attempts(tx: Connection, run_id: str) -> list[OpenAttempt]:
    """The attempts of a run that have not ended."""
    rows = tx.execute(select(attempts).where(attempts.c.run_id == run_id, attempts.c.state == "open"))
    return [_open_attempt(row) for row in rows]


def append_receipt(tx: Connection, receipt: Receipt, data: bytes, result: QuestionResult, now: float) -> None:
    """The rows that end an attempt, within the caller's transaction. Raises InputError if it is not open."""
    document = write_result(tx, receipt.run, result)
    closing = update(attempts).where(attempts.c.id == receipt.attempt.id, attempts.c.state == "open")
    closed = closing.values(state="closed", outcome=receipt.outcome.value, draft=None, result=document, ended_at=now)
    if tx.execute(closed).rowcount != 1:
        raise InputError("attempt-open", f"attempt {receipt.attempt.id} is not open: it has a receipt or never began")
    identity = str(receipt_id(data))
    row = {
        "id": identity,
        "attempt_id": receipt.attempt.id,
        "run_id": receipt.run,
        "question_id": receipt.question_id,
        "tenant": receipt.tenant,
        "outcome": receipt.outcome.value,
        "question_digest": receipt.question_digest,
        "identity": receipt.engine.identity,
        "created_at": now,
        "document": data,
    }
    tx.execute(insert(receipts).values(**row))
    tx.execute(insert(outbox).values(receipt_id=identity, created_at=now))


def _facts(draft: Receipt) -> AttemptFacts:
    return AttemptFacts(
        attempt=draft.attempt.id,
        run=draft.run,
        question_id=draft.question_id,
        tenant=draft.tenant,
        bundle_digest=Digest.parse(draft.bundle.digest),
        limits_digest=Digest.parse(draft.limits.digest),
    )


def _open_attempt(row: Row[Any]) -> OpenAttempt:
    process = ProcessMark(row.host, row.boot_id, row.pid_namespace, row.pid, row.pid_start)
    return OpenAttempt(row.id, row.run_id, row.question_id, row.draft, row.started_at, process)


def _of(query: Select[Any], tenant: str, run: str | None) -> Select[Any]:
    query = query.where(receipts.c.tenant == tenant)
    return query if run is None else query.where(receipts.c.run_id == run)


def _entry(row: Row[Any]) -> ReceiptEntry:
    outcome = Outcome(row.outcome)
    return ReceiptEntry(Digest.parse(row.id), row.run_id, row.question_id, row.tenant, outcome, row.created_at)
