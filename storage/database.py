"""One SQL database: short write transactions one after another, reads that never wait for them.

SQLite in WAL mode. A write transaction takes the kernel's queue first (file_lock) and then BEGIN IMMEDIATE, so that
it neither fails half way for a lock nor starves. One `Database` per process: it does not survive a fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    MetaData,
    RootTransaction,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from contracts.errors import StorageError
from storage import schema
from storage.disk_errors import disk_errors
from storage.file_lock import file_lock
from storage.incoming import make_directory

_BUSY_TIMEOUT_MS = 30_000  # for checkpoints and foreign readers only: our writers queue on the lock file
_POOL_SIZE = 4


class Durability(str, Enum):
    """What survives a power cut: `FULL` every commit, `NORMAL` all but the last ones (a killed process loses none)."""

    FULL = "FULL"
    NORMAL = "NORMAL"


class Database:
    """Transactions on one SQLite file. Safe between threads and processes.

    `added` names the tables that came with each later version: a database of the version before gets them when it is
    opened, in one transaction.

    Raises StorageError: `ledger-schema` for a database of another version, `ledger-wal` for a file system on which
    SQLite cannot keep a write-ahead log, `ledger` for all else.
    """

    def __init__(
        self,
        path: Path,
        metadata: MetaData,
        version: tuple[Table, int],
        durability: Durability = Durability.FULL,
        added: Mapping[int, tuple[Table, ...]] | None = None,
    ) -> None:
        self._lock = path.with_suffix(".lock")
        self._engine = _engine(path, durability)
        with disk_errors(f"open {path.name}"):
            make_directory(path.parent, 0o700)
        with _sql_errors(path.name):
            self._open(path.name, metadata, *version, added or {})

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end of the block, rolled back if it raises."""
        with file_lock(self._lock), _sql_errors("write"), self._engine.connect() as tx, _immediate(tx):
            yield tx

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and writes nothing."""
        with _sql_errors("read"), self._engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _open(
        self, name: str, metadata: MetaData, table: Table, version: int, added: Mapping[int, tuple[Table, ...]]
    ) -> None:
        with file_lock(self._lock):
            with self._engine.connect() as connection:
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            if mode != "wal":
                raise StorageError("ledger-wal", f"{name}: expected journal mode wal, got {mode}: use a local disk")
            with self._engine.connect() as connection, _immediate(connection):
                found = _version(connection, table)
                if found is None:
                    metadata.create_all(connection)
                    connection.execute(insert(table).values(version=version))
                elif found != version:
                    later = range(found + 1, version + 1)
                    if not later or not added.keys() >= set(later):
                        raise StorageError("ledger-schema", f"{name}: expected schema version {version}, got {found}")
                    metadata.create_all(connection, tables=[each for step in later for each in added[step]])
                    connection.execute(update(table).values(version=version))


def open_leases(folder: Path) -> Database:
    """The leases: after a power cut their holders are gone too, so the last commits need not survive it."""
    path = folder / "leases.sqlite"
    return Database(path, schema.LEASES, (schema.leases_version, schema.LEASES_VERSION), Durability.NORMAL)


def open_ledger(folder: Path) -> Database:
    """Runs, attempts and receipts: every commit survives."""
    path = folder / "ledger.sqlite"
    version = (schema.ledger_version, schema.LEDGER_VERSION)
    return Database(path, schema.LEDGER, version, Durability.FULL, schema.LEDGER_ADDED)


def _engine(path: Path, durability: Durability) -> Engine:
    engine = create_engine(URL.create("sqlite+pysqlite", database=str(path)), pool_size=_POOL_SIZE, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver would begin by itself, too late and never IMMEDIATE
        for pragma in (
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
            "journal_mode=WAL",
            f"synchronous={durability.value}",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        mode = connection.get_execution_options().get("begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _immediate(connection: Connection) -> RootTransaction:
    return connection.execution_options(begin="IMMEDIATE").begin()


def _version(connection: Connection, table: Table) -> int | None:
    names = inspect(connection).get_table_names()
    if not names:
        return None
    if table.name not in names:
        raise StorageError("ledger-schema", f"the database holds {len(names)} tables but no schema version: not ours")
    return connection.execute(select(table.c.version)).scalar()


@contextmanager
def _sql_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise StorageError("ledger", f"{doing}: {type(error.orig).__name__}: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StorageError("ledger", f"{doing}: {type(error).__name__}") from error
