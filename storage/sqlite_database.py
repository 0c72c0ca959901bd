"""The leases and the ledger as two SQLite files of one host.

WAL mode. A write transaction takes the kernel's queue first (file_lock) and then BEGIN IMMEDIATE, so that it neither
fails half way for a lock nor starves. The leases need not survive a power cut, their holders do not either; a receipt
must.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from contracts.errors import StorageError
from storage.database import ONLY_HOST, Database, opening
from storage.disk_errors import disk_errors
from storage.file_lock import file_lock
from storage.incoming import make_directory
from storage.network_disks import refuse_network_disk
from storage.revisions import LEASES_PART, LEDGER_PART, Part, is_current, prepare

_BUSY_TIMEOUT_MS = 30_000  # for checkpoints and foreign readers only: our writers queue on the lock file
_POOL_SIZE = 4


class Durability(str, Enum):
    """What survives a power cut: `FULL` every commit, `NORMAL` all but the last ones (a killed process loses none)."""

    FULL = "FULL"
    NORMAL = "NORMAL"


def open_leases(folder: Path) -> Database:
    """The leases: after a power cut their holders are gone too, so the last commits need not survive it."""
    return _open(folder / "leases.sqlite", LEASES_PART, Durability.NORMAL)


def open_ledger(folder: Path) -> Database:
    """Runs, attempts and receipts: every commit survives."""
    return _open(folder / "ledger.sqlite", LEDGER_PART, Durability.FULL)


def _open(path: Path, part: Part, durability: Durability) -> Database:
    """One file, made or brought to this version.

    Raises StorageError: `ledger-network-disk`, `ledger-wal` for a file system on which SQLite cannot keep a
    write-ahead log, `ledger-schema` for a database that is not ours or newer, and what database_errors names.
    """
    refuse_network_disk(path.parent)
    with disk_errors(f"open {path.name}"):
        make_directory(path.parent, 0o700)
    engine = _engine(path, durability)
    writing = engine.execution_options(begin="IMMEDIATE")
    queue = partial(file_lock, path.with_suffix(".lock"))
    with opening(engine, path.name):
        with engine.begin() as tx:
            current = is_current(tx, part)
        if not current:
            with queue(), writing.connect() as connection:
                _prepare(connection, part)
    return Database(writing, engine, host=ONLY_HOST, queue=queue)


def _prepare(connection: Connection, part: Part) -> None:
    """Make or migrate, whole or not at all. Tables that are rebuilt on the way are dropped under their old name, which
    enforced references would answer by deleting rows: so they are checked at the end instead."""
    driver: Any = connection.connection.dbapi_connection
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        with connection.begin():
            prepare(connection, part)
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise StorageError("ledger-schema", f"{part.name}: the migration would break references")
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


def _engine(path: Path, durability: Durability) -> Engine:
    url = URL.create("sqlite+pysqlite", database=str(path))
    engine = create_engine(url, pool_size=_POOL_SIZE, max_overflow=-1, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver would begin by itself, too late and never IMMEDIATE
        connection.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise StorageError("ledger-wal", f"{path.name}: expected journal mode wal, got {mode}: use a local disk")
        connection.execute(f"PRAGMA synchronous={durability.value}")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        mode = connection.get_execution_options().get("begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine
