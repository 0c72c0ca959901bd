"""The leases and the ledger in one PostgreSQL database, each in a schema of its own, apart from whatever else is there.

Write transactions are READ COMMITTED and lock the rows that they decide by. That is enough, and SERIALIZABLE would
roll back receipts of strangers: every rule that matters is about one row (a lease is active, an attempt is open, a run
runs) and is checked by the statement that changes it; what is about two (no lease names a copy) is under the path's
file lock of its one host; fences come from a sequence. Locks are taken in one order, leases by fence, then run,
question, attempt, so that no two of ours wait for each other.

Reads are REPEATABLE READ and READ ONLY: one state, and no write by accident.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError

from contracts.errors import InputError, StorageError
from settings.secret import Secret
from storage.database import Database, opening
from storage.database_errors import READ_ONLY
from storage.revisions import LEASES_PART, LEDGER_PART, is_current, prepare

OLDEST_VERSION = 150_000  # 15: what the tests' features were read for; older ones are near the end of their support
_CONNECT_S = 10
_STATEMENT_MS = 30_000  # the longest of ours takes milliseconds
_LOCK_MS = 10_000
_IDLE_MS = 60_000  # within a transaction: a holder that hangs must not hold the others
_POOL_SIZE = 4
_PREPARING = 0x6D6F7361696300  # key of the advisory lock: "mosaic"
_PARTS = (LEASES_PART, LEDGER_PART)


def open_postgresql(url: Secret, *, host: str) -> Database:
    """Both parts, made or brought to this version, as `host`.

    Raises StorageError: `ledger-version`, `ledger-read-only` for a standby, `ledger-schema` for a database that is not
    ours or newer, and what database_errors names; InputError for a URL that is none.
    """
    engine = _engine(url)
    writing = engine.execution_options(isolation_level="READ COMMITTED")
    reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    with opening(engine, "the database"):
        with reading.begin() as tx:
            current = all(is_current(tx, part) for part in _PARTS)
        if not current:
            with writing.begin() as tx:
                tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PREPARING})
                tx.execute(text("SET LOCAL statement_timeout = 0"))  # a large table may take its time
                for part in _PARTS:
                    prepare(tx, part)
    return Database(writing, reading, host=host, queue=nullcontext)


def check_server(version: int, *, standby: bool) -> None:
    """Refuse what cannot keep a ledger. `version` as libpq tells it: 150004 is 15.4."""
    if version < OLDEST_VERSION:
        expected = f"expected PostgreSQL {OLDEST_VERSION // 10_000} or later"
        raise StorageError("ledger-version", f"{expected}, got {version // 10_000}.{version % 10_000}")
    if standby:
        raise StorageError(READ_ONLY, "the server is a standby: name the primary, or all hosts and "
                           "target_session_attrs=read-write")  # fmt: skip


def _engine(url: Secret) -> Engine:
    try:
        parsed = make_url(url.reveal()).set(drivername="postgresql+psycopg")
    except ArgumentError:
        raise InputError("settings-type", "database_url: expected postgresql://user@host/database") from None
    engine = create_engine(
        parsed,
        pool_size=_POOL_SIZE,
        max_overflow=-1,
        pool_pre_ping=True,  # a receipt comes after minutes of silence, which firewalls and restarts use
        hide_parameters=True,
        connect_args={"connect_timeout": _CONNECT_S, "fallback_application_name": "mosaic"},
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        try:
            standby = connection.info.parameter_status("in_hot_standby") == "on"
            check_server(connection.info.server_version, standby=standby)
        except StorageError:
            connection.close()
            raise
        connection.autocommit = True
        connection.execute(
            f"SET search_path = {', '.join(part.schema for part in _PARTS)};"
            f"SET statement_timeout = {_STATEMENT_MS};"
            f"SET lock_timeout = {_LOCK_MS};"
            f"SET idle_in_transaction_session_timeout = {_IDLE_MS}"
        )
        connection.autocommit = False

    return engine
