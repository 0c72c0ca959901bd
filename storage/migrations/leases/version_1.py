"""Staged copies and their leases."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float, Integer, text

from storage.column_types import BIG, TEXT

revision = "1"
down_revision = None

_ACTIVE = text("state = 'active'")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "staged_copy",
        Column("host", TEXT, primary_key=True),
        Column("tenant", TEXT, primary_key=True),
        Column("staged_name", TEXT, primary_key=True),
        Column("digest", TEXT, nullable=False),
        Column("size_bytes", BIG, nullable=False),
        Column("state", TEXT, nullable=False),
        Column("staged_at", Float, nullable=False),
    )
    op.create_table(
        "lease",
        Column("fence", BIG, primary_key=True, autoincrement=True),
        Column("id", TEXT, nullable=False, unique=True),
        *(Column(name, TEXT, nullable=False) for name in ("host", "tenant", "digest", "staged_name", "holder")),
        Column("boot_id", TEXT, nullable=False),
        Column("pid_namespace", TEXT, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("pid_start", BIG, nullable=False),
        *(Column(name, Float, nullable=False) for name in ("acquired_at", "ttl_s", "expires_at")),
        Column("ended_at", Float),
        Column("state", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )
    for name, columns in (
        ("lease_live", ["host", "tenant", "staged_name"]),
        ("lease_holder", ["holder"]),
        ("lease_expiry", ["expires_at"]),
    ):
        op.create_index(name, "lease", columns, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE)
