"""Every source that was asked for, had or refused."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float, ForeignKey, Integer, text

from storage.column_types import BIG, FLAG, TEXT

revision = "2"
down_revision = "1"

_HAD = text("rule IS NULL")


def upgrade() -> None:
    """Make the table of acquisitions."""
    op.create_table(
        "acquisition",
        Column("position", BIG, primary_key=True, autoincrement=True),
        Column("attempt_id", TEXT, ForeignKey("attempt.id"), nullable=False),
        Column("run_id", TEXT, nullable=False, index=True),
        Column("question_id", TEXT, nullable=False),
        Column("part_index", Integer, nullable=False),
        *(Column(name, TEXT, nullable=False) for name in ("tenant", "bundle_digest", "source", "requested_digest")),
        Column("policy_digest", TEXT),
        Column("limits_digest", TEXT, nullable=False),
        Column("max_bytes", BIG, nullable=False),
        Column("rule", TEXT),
        Column("digest", TEXT),
        Column("asked", FLAG, nullable=False),
        Column("lasts", FLAG, nullable=False),
        Column("document", TEXT, nullable=False),
        Column("created_at", Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("acquisition_again", "acquisition", ["tenant", "bundle_digest", "lasts", "requested_digest"])
    op.create_index("acquisition_had", "acquisition", ["tenant", "digest"], sqlite_where=_HAD, postgresql_where=_HAD)
