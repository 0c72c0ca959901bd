"""By which clock a lease's times were written, so that a jump of the clock can be told from time that passed."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add the column; of leases from before it is not known."""
    op.add_column("lease", Column("clock_offset_s", Float))
