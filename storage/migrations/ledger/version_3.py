"""On which host a run's and an attempt's process is: several hosts may write one ledger."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, text

from storage.column_types import TEXT

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the column; what was there was written on the only host there was."""
    for table in ("run", "attempt"):
        op.add_column(table, Column("host", TEXT, nullable=False, server_default=text("'local'")))
