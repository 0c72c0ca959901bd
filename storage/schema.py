"""The tables. Leases and the ledger are two databases: a lease must be quick, a receipt must survive a power cut.

Columns are what both SQLite and PostgreSQL have. Times are epoch seconds; digests are `sha256:<hex>`; documents are
JSON text. How many leases name a file is always a query over active rows, never a counter: counters drift on crashes.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

LEASES_VERSION = 1
LEDGER_VERSION = 2

LEASES = MetaData()
LEDGER = MetaData()


def _process_columns() -> list[Column[int] | Column[str]]:
    """Who holds a row, so that a dead process can be told from a live one."""
    return [
        Column("boot_id", Text, nullable=False),
        Column("pid_namespace", Text, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("pid_start", Integer, nullable=False),
    ]


leases_version = Table("schema_version", LEASES, Column("version", Integer, primary_key=True))
ledger_version = Table("schema_version", LEDGER, Column("version", Integer, primary_key=True))

staged_copy = Table(
    "staged_copy",  # a file that may exist: the row comes before the file and goes after it
    LEASES,
    Column("host", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("staged_name", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("state", Text, nullable=False),  # staged | condemned
    Column("staged_at", Float, nullable=False),
)

lease = Table(
    "lease",
    LEASES,
    Column("fence", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("host", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("staged_name", Text, nullable=False),
    Column("holder", Text, nullable=False),
    *_process_columns(),
    Column("acquired_at", Float, nullable=False),
    Column("ttl_s", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("state", Text, nullable=False),  # contracts.lease.LeaseState
    sqlite_autoincrement=True,  # a fence is never given twice, also when the last row was deleted
)
_active = text("state = 'active'")
Index(
    "lease_live",
    lease.c.host,
    lease.c.tenant,
    lease.c.staged_name,
    sqlite_where=_active,
    postgresql_where=_active,
)
Index("lease_holder", lease.c.holder, sqlite_where=_active, postgresql_where=_active)
Index("lease_expiry", lease.c.expires_at, sqlite_where=_active, postgresql_where=_active)

run = Table(
    "run",
    LEDGER,
    Column("id", Text, primary_key=True),
    Column("bundle_id", Text, nullable=False),
    Column("bundle_digest", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("engine", Text, nullable=False),  # contracts.result.ResultEngine
    Column("state", Text, nullable=False),  # running | finished | abandoned
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    *_process_columns(),
)
Index("run_state", run.c.state)

question = Table(
    "question",
    LEDGER,
    Column("run_id", Text, ForeignKey("run.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("question_id", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("state", Text, nullable=False),  # pending | done
    Column("result", Text),  # contracts.result.QuestionResult
    UniqueConstraint("run_id", "question_id"),
)

attempt = Table(
    "attempt",
    LEDGER,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("run.id"), nullable=False),
    Column("question_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),  # open | closed
    Column("outcome", Text),
    Column("draft", LargeBinary),  # while open: the receipt that is true if nobody comes back
    Column("result", Text),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    *_process_columns(),
    UniqueConstraint("run_id", "question_id", "number"),
)
Index("attempt_open", attempt.c.run_id, sqlite_where=text("state = 'open'"), postgresql_where=text("state = 'open'"))

receipt = Table(
    "receipt",
    LEDGER,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("attempt_id", Text, ForeignKey("attempt.id"), nullable=False, unique=True),
    Column("run_id", Text, nullable=False, index=True),
    Column("question_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("question_digest", Text),
    Column("identity", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("document", LargeBinary, nullable=False),  # the bytes exactly as hashed
    sqlite_autoincrement=True,
)
Index("receipt_answer", receipt.c.question_digest, receipt.c.identity, receipt.c.tenant)

outbox = Table(
    "outbox",
    LEDGER,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("receipt_id", Text, ForeignKey("receipt.id"), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("delivered_at", Float),
    sqlite_autoincrement=True,
)

inspection = Table(
    "inspection",  # a second sight of the same bytes costs no decode
    LEDGER,
    Column("digest", Text, primary_key=True),
    Column("modality", Text, primary_key=True),
    Column("derivation", Text, primary_key=True),
    Column("limits_digest", Text, primary_key=True),
    Column("document", Text, nullable=False),  # storage.inspections.CachedInspection
    Column("created_at", Float, nullable=False),
)

acquisition = Table(
    "acquisition",  # every source that was asked for, had or refused
    LEDGER,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("attempt_id", Text, ForeignKey("attempt.id"), nullable=False),
    Column("run_id", Text, nullable=False, index=True),
    Column("question_id", Text, nullable=False),
    Column("part_index", Integer, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("bundle_digest", Text, nullable=False),
    Column("source", Text, nullable=False),  # url | file | s3 | blob
    Column("requested_digest", Text, nullable=False),
    Column("policy_digest", Text),
    Column("limits_digest", Text, nullable=False),
    Column("max_bytes", Integer, nullable=False),
    Column("rule", Text),  # of the failure; null where the bytes were had
    Column("digest", Text),
    Column("asked", Integer, nullable=False),  # 1: the source itself; 0: answered from another acquisition
    Column("lasts", Integer, nullable=False),  # contracts.lasting_failures
    Column("document", Text, nullable=False),  # contracts.records.AcquisitionRecord
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,
)
Index(
    "acquisition_again",
    acquisition.c.tenant,
    acquisition.c.bundle_digest,
    acquisition.c.lasts,
    acquisition.c.requested_digest,
)

_had = text("rule IS NULL")
Index(
    "acquisition_had",  # storage.blob_sources asks whether a tenant ever had some bytes
    acquisition.c.tenant,
    acquisition.c.digest,
    sqlite_where=_had,
    postgresql_where=_had,
)

LEDGER_ADDED: dict[int, tuple[Table, ...]] = {2: (acquisition,)}
"""By version of the ledger, the tables that came with it: what an older one lacks."""
