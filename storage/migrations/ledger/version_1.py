"""Runs, questions, attempts, receipts, outbox, inspections."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float, ForeignKey, Integer, LargeBinary, UniqueConstraint, text

from storage.column_types import BIG, TEXT

revision = "1"
down_revision = None

_OPEN = text("state = 'open'")


def upgrade() -> None:
    """Make the tables."""
    _make_runs()
    _make_attempts()
    _make_receipts()
    op.create_table(
        "inspection",
        *(Column(name, TEXT, primary_key=True) for name in ("digest", "modality", "derivation", "limits_digest")),
        Column("document", TEXT, nullable=False),
        Column("created_at", Float, nullable=False),
    )


def _make_runs() -> None:
    op.create_table(
        "run",
        Column("id", TEXT, primary_key=True),
        *(_text(name) for name in ("bundle_id", "bundle_digest", "tenant", "engine", "state")),
        Column("started_at", Float, nullable=False),
        Column("ended_at", Float),
        *_process(),
    )
    op.create_index("run_state", "run", ["state"])
    op.create_table(
        "question",
        Column("run_id", TEXT, ForeignKey("run.id"), primary_key=True),
        Column("position", BIG, primary_key=True),
        *(_text(name) for name in ("question_id", "labels", "state")),
        Column("result", TEXT),
        UniqueConstraint("run_id", "question_id"),
    )


def _make_attempts() -> None:
    op.create_table(
        "attempt",
        Column("id", TEXT, primary_key=True),
        Column("run_id", TEXT, ForeignKey("run.id"), nullable=False),
        _text("question_id"),
        Column("number", Integer, nullable=False),
        _text("state"),
        Column("outcome", TEXT),
        Column("draft", LargeBinary),
        Column("result", TEXT),
        Column("started_at", Float, nullable=False),
        Column("ended_at", Float),
        *_process(),
        UniqueConstraint("run_id", "question_id", "number"),
    )
    op.create_index("attempt_open", "attempt", ["run_id"], sqlite_where=_OPEN, postgresql_where=_OPEN)


def _make_receipts() -> None:
    op.create_table(
        "receipt",
        Column("position", BIG, primary_key=True, autoincrement=True),
        Column("id", TEXT, nullable=False, unique=True),
        Column("attempt_id", TEXT, ForeignKey("attempt.id"), nullable=False, unique=True),
        Column("run_id", TEXT, nullable=False, index=True),
        *(_text(name) for name in ("question_id", "tenant", "outcome")),
        Column("question_digest", TEXT),
        _text("identity"),
        Column("created_at", Float, nullable=False),
        Column("document", LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("receipt_answer", "receipt", ["question_digest", "identity", "tenant"])
    op.create_table(
        "outbox",
        Column("position", BIG, primary_key=True, autoincrement=True),
        Column("receipt_id", TEXT, ForeignKey("receipt.id"), nullable=False, unique=True),
        Column("created_at", Float, nullable=False),
        Column("delivered_at", Float),
        sqlite_autoincrement=True,
    )


def _text(name: str) -> Column[str]:
    return Column(name, TEXT, nullable=False)


def _process() -> tuple[Column[str] | Column[int], ...]:
    return (
        _text("boot_id"),
        _text("pid_namespace"),
        Column("pid", Integer, nullable=False),
        Column("pid_start", BIG, nullable=False),
    )
