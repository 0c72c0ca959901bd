"""The ledger's rows against the receipts they stand beside: what people are shown must be what was hashed.

A receipt proves itself (storage/verify); rows only index it and hold the text for showing. Whoever may write the
ledger may write anything consistently: this finds what was changed in one place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.receipt import Receipt, parse_receipt
from contracts.receipt_checks import Finding
from contracts.result import QuestionResult
from storage.database import Database
from storage.schema import attempt as attempts
from storage.schema import question as questions
from storage.schema import receipt as receipts
from storage.schema import run as runs

_COLUMNS = ("run_id", "question_id", "tenant", "question_digest")


def row_findings(database: Database, receipt_id: Digest) -> tuple[Finding, ...]:
    """What the rows of one receipt say otherwise than the receipt itself; nothing if it cannot be read at all."""
    query = (
        select(receipts, attempts.c.result.label("attempt_result"), questions.c.result.label("question_result"))
        .join(attempts, receipts.c.attempt_id == attempts.c.id, isouter=True)
        .join(
            questions,
            (questions.c.run_id == receipts.c.run_id) & (questions.c.question_id == receipts.c.question_id),
            isouter=True,
        )
        .where(receipts.c.id == str(receipt_id))
    )
    with database.read() as tx:
        row = tx.execute(query).mappings().one_or_none()
    if row is None:
        return (Finding("receipt-missing", "the ledger has no row of this receipt", str(receipt_id)),)
    try:
        receipt = parse_receipt(row["document"])
    except (InputError, TypeError):
        return ()  # storage/verify says why
    return tuple(_findings(receipt, dict(row), str(receipt_id)))


def missing_receipts(database: Database, tenant: str) -> Iterator[Finding]:
    """Attempts of a tenant that ended but have no receipt any more."""
    query = (
        select(attempts.c.id, attempts.c.question_id)
        .join(runs, runs.c.id == attempts.c.run_id)
        .join(receipts, receipts.c.attempt_id == attempts.c.id, isouter=True)
        .where(runs.c.tenant == tenant, attempts.c.state == "closed", receipts.c.id.is_(None))
    )
    with database.read() as tx:
        rows = tx.execute(query).all()
    for row in rows:
        yield Finding("receipt-missing", f"attempt {row.id} of question {row.question_id} ended without a receipt")


def _findings(receipt: Receipt, row: dict[str, Any], name: str) -> Iterator[Finding]:
    said = dict(zip(_COLUMNS, (receipt.run, receipt.question_id, receipt.tenant, receipt.question_digest), strict=True))
    said |= {"outcome": receipt.outcome.value, "identity": receipt.engine.identity, "attempt_id": receipt.attempt.id}
    for column, value in said.items():
        if row[column] != value:
            yield Finding("row-column", f"the row's {column} is not what the receipt says", name)
    for shown in ("attempt_result", "question_result"):
        if not _is_result_of(row[shown], receipt, name):
            yield Finding("row-result", f"the {shown.replace('_', ' ')} is not what the receipt says", name)


def _is_result_of(document: str | None, receipt: Receipt, name: str) -> bool:
    try:
        result = QuestionResult.from_json(json.loads(document or "null"))
    except (ValueError, TypeError, InputError):
        return False
    if result.receipt != name:
        return True  # a later attempt's result took its place; that one is compared with its own receipt
    text = result.answer if result.answer is not None else result.partial
    expected = QuestionResult.of_receipt(
        receipt,
        Digest.parse(name),
        text=text,
        structured=_structured(receipt, text),
        seconds=result.seconds,
        labels=result.labels,
    )
    named = None if receipt.answer is None else receipt.answer.text_digest
    texts_agree = named is None or (text is not None and str(Digest.of(text.encode())) == named)
    return result == expected and texts_agree


def _structured(receipt: Receipt, text: str | None) -> Any:
    """The value of an answer that was asked for as JSON."""
    asked = receipt.answer is not None and receipt.answer.schema_digest is not None
    return json.loads(text) if asked and receipt.outcome.is_answer and text is not None else None
