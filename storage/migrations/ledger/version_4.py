"""What is held whatever retention says, and which receipts' media retention has given up."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float, ForeignKey

from storage.column_types import TEXT

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "legal_hold",
        Column("subject", TEXT, primary_key=True),
        Column("reason", TEXT, nullable=False),
        Column("created_at", Float, nullable=False),
    )
    op.create_table(
        "retired_media",
        Column("receipt_id", TEXT, ForeignKey("receipt.id"), primary_key=True),
        Column("retired_at", Float, nullable=False),
    )
