"""The tables. Leases and the ledger are two databases: a lease must be quick, a receipt must survive a power cut.

Columns are what both SQLite and PostgreSQL have (storage/column_types). Times are epoch seconds; digests are
`sha256:<hex>`; documents are JSON text. How many leases name a file is always a query over active rows, never a
counter: counters drift on crashes. Numbers that the database gives grow in the order in which they were asked for; on
PostgreSQL commits may come in another, so who remembers a position can have missed a smaller one.

Who changes a table adds a revision to storage/migrations and its number here; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, UniqueConstraint, text

from storage.column_types import BIG, FLAG, TEXT

LEASES_REVISION = "2"
LEDGER_REVISION = "4"

LEASES = MetaData()
LEDGER = MetaData()


def _process_columns() -> list[Column[int] | Column[str]]:
    """Who holds a row, so that a dead process can be told from a live one. Leases have the host of their file."""
    return [
        Column("boot_id", TEXT, nullable=False),
        Column("pid_namespace", TEXT, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("pid_start", BIG, nullable=False),
    ]


def _host_column() -> Column[str]:
    """Where the process is; what was written before hosts were told apart was written on the only one."""
    return Column("host", TEXT, nullable=False, server_default=text("'local'"))


staged_copy = Table(
    "staged_copy",  # a file that may exist: the row comes before the file and goes after it
    LEASES,
    Column("host", TEXT, primary_key=True),
    Column("tenant", TEXT, primary_key=True),
    Column("staged_name", TEXT, primary_key=True),
    Column("digest", TEXT, nullable=False),
    Column("size_bytes", BIG, nullable=False),
    Column("state", TEXT, nullable=False),  # staged | condemned
    Column("staged_at", Float, nullable=False),
)

lease = Table(
    "lease",
    LEASES,
    Column("fence", BIG, primary_key=True, autoincrement=True),
    Column("id", TEXT, nullable=False, unique=True),
    Column("host", TEXT, nullable=False),
    Column("tenant", TEXT, nullable=False),
    Column("digest", TEXT, nullable=False),
    Column("staged_name", TEXT, nullable=False),
    Column("holder", TEXT, nullable=False),
    *_process_columns(),
    Column("acquired_at", Float, nullable=False),
    Column("ttl_s", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("state", TEXT, nullable=False),  # contracts.lease.LeaseState
    Column(
        "clock_offset_s", Float
    ),  # epoch less the boot clock, when the times were written: storage.leases.expire_overdue
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
    Column("id", TEXT, primary_key=True),
    Column("bundle_id", TEXT, nullable=False),
    Column("bundle_digest", TEXT, nullable=False),
    Column("tenant", TEXT, nullable=False),
    Column("engine", TEXT, nullable=False),  # contracts.result.ResultEngine
    Column("state", TEXT, nullable=False),  # running | finished | abandoned
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    *_process_columns(),
    _host_column(),
)
Index("run_state", run.c.state)

question = Table(
    "question",
    LEDGER,
    Column("run_id", TEXT, ForeignKey("run.id"), primary_key=True),
    Column("position", BIG, primary_key=True),
    Column("question_id", TEXT, nullable=False),
    Column("labels", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),  # pending | done
    Column("result", TEXT),  # contracts.result.QuestionResult
    UniqueConstraint("run_id", "question_id"),
)

attempt = Table(
    "attempt",
    LEDGER,
    Column("id", TEXT, primary_key=True),
    Column("run_id", TEXT, ForeignKey("run.id"), nullable=False),
    Column("question_id", TEXT, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", TEXT, nullable=False),  # open | closed
    Column("outcome", TEXT),
    Column("draft", LargeBinary),  # while open: the receipt that is true if nobody comes back
    Column("result", TEXT),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    *_process_columns(),
    _host_column(),
    UniqueConstraint("run_id", "question_id", "number"),
)
Index("attempt_open", attempt.c.run_id, sqlite_where=text("state = 'open'"), postgresql_where=text("state = 'open'"))

receipt = Table(
    "receipt",
    LEDGER,
    Column("position", BIG, primary_key=True, autoincrement=True),
    Column("id", TEXT, nullable=False, unique=True),
    Column("attempt_id", TEXT, ForeignKey("attempt.id"), nullable=False, unique=True),
    Column("run_id", TEXT, nullable=False, index=True),
    Column("question_id", TEXT, nullable=False),
    Column("tenant", TEXT, nullable=False),
    Column("outcome", TEXT, nullable=False),
    Column("question_digest", TEXT),
    Column("identity", TEXT, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("document", LargeBinary, nullable=False),  # the bytes exactly as hashed
    sqlite_autoincrement=True,
)
Index("receipt_answer", receipt.c.question_digest, receipt.c.identity, receipt.c.tenant)

outbox = Table(
    "outbox",
    LEDGER,
    Column("position", BIG, primary_key=True, autoincrement=True),
    Column("receipt_id", TEXT, ForeignKey("receipt.id"), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("delivered_at", Float),
    sqlite_autoincrement=True,
)

inspection = Table(
    "inspection",  # a second sight of the same bytes costs no decode
    LEDGER,
    Column("digest", TEXT, primary_key=True),
    Column("modality", TEXT, primary_key=True),
    Column("derivation", TEXT, primary_key=True),
    Column("limits_digest", TEXT, primary_key=True),
    Column("document", TEXT, nullable=False),  # storage.inspections.CachedInspection
    Column("created_at", Float, nullable=False),
)

acquisition = Table(
    "acquisition",  # every source that was asked for, had or refused
    LEDGER,
    Column("position", BIG, primary_key=True, autoincrement=True),
    Column("attempt_id", TEXT, ForeignKey("attempt.id"), nullable=False),
    Column("run_id", TEXT, nullable=False, index=True),
    Column("question_id", TEXT, nullable=False),
    Column("part_index", Integer, nullable=False),
    Column("tenant", TEXT, nullable=False),
    Column("bundle_digest", TEXT, nullable=False),
    Column("source", TEXT, nullable=False),  # url | file | s3 | blob
    Column("requested_digest", TEXT, nullable=False),
    Column("policy_digest", TEXT),
    Column("limits_digest", TEXT, nullable=False),
    Column("max_bytes", BIG, nullable=False),
    Column("rule", TEXT),  # of the failure; null where the bytes were had
    Column("digest", TEXT),
    Column("asked", FLAG, nullable=False),  # the source itself, not the memory of another acquisition
    Column("lasts", FLAG, nullable=False),  # contracts.lasting_failures
    Column("document", TEXT, nullable=False),  # contracts.records.AcquisitionRecord
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

legal_hold = Table(
    "legal_hold",  # what no retention removes: contracts.retention
    LEDGER,
    Column("subject", TEXT, primary_key=True),
    Column("reason", TEXT, nullable=False),
    Column("created_at", Float, nullable=False),
)

retired_media = Table(
    "retired_media",  # receipts whose media retention has given up; the row comes before the first blob goes
    LEDGER,
    Column("receipt_id", TEXT, ForeignKey("receipt.id"), primary_key=True),
    Column("retired_at", Float, nullable=False),
)
