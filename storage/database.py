"""One SQL database: short write transactions, reads that never wait for them, errors in our words.

The same on SQLite (storage/sqlite_database) and PostgreSQL (storage/postgresql_database); both make what is here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakSet

from sqlalchemy import Column, ColumnElement, Connection, Engine, Pool, Table, and_
from sqlalchemy.dialects import postgresql, sqlite

from storage.database_errors import database_errors

ONLY_HOST = "local"
"""The host's name in a SQLite database: one host has it, whatever that is called today."""

_LAST_CHARACTER = "\U0010ffff"
Queue = Callable[[], AbstractContextManager[None]]
_OPEN: WeakSet[Engine] = WeakSet()
_INHERITED: list[Pool] = []  # a forked child's copies of connections that are its parent's: kept, never closed


class Database:
    """Transactions on one database, as `host`. Safe between threads and processes; over a fork too: the child makes
    connections of its own.

    `writing` and `reading` are the engine with what the two kinds of transaction need; a writer enters `queue` first.
    """

    def __init__(self, writing: Engine, reading: Engine, *, host: str, queue: Queue) -> None:
        self.host = host
        self._writing, self._reading = writing, reading
        self._queue = queue
        _OPEN.update((writing, reading))

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end of the block, rolled back if it raises.

        Raises StorageError. `ledger-conflict` can only come where foreign hands write too: ours take their locks in
        one order (storage/postgresql_database).
        """
        with database_errors("write"), self._writing.connect() as tx, self._queue(), tx.begin():
            yield tx

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and writes nothing. Raises StorageError."""
        with database_errors("read"), self._reading.begin() as tx:
            yield tx

    def close(self) -> None:
        """Close all connections."""
        self._writing.dispose()


@contextmanager
def opening(engine: Engine, name: str) -> Iterator[None]:
    """What opens a database: its errors are ours, and where it fails no connection stays open."""
    try:
        with database_errors(f"open {name}"):
            yield
    except BaseException:
        engine.dispose()
        raise


def upsert(tx: Connection, table: Table) -> Any:
    """An INSERT that knows ON CONFLICT, which both databases spell alike and SQLAlchemy has twice."""
    return postgresql.insert(table) if tx.dialect.name == "postgresql" else sqlite.insert(table)


def begins_with(column: Column[str], beginning: str) -> ColumnElement[bool]:
    """Whether a text begins so, by code point, which both databases look up in the column's index. (LIKE does neither:
    it is blind for case on SQLite only.)"""
    return and_(column >= beginning, column < beginning + _LAST_CHARACTER)


def _forget_inherited_connections() -> None:
    """In a forked child: two processes on one connection would read each other's answers, and closing it would end
    the parent's session."""
    for engine in _OPEN:
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_inherited_connections)
