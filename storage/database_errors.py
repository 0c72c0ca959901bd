"""What a database refuses, in our words: a rule and names of constraints, never a value, a statement or an address."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from contracts.errors import StorageError

UNREACHABLE, LOGIN, READ_ONLY = "ledger-unreachable", "ledger-login", "ledger-read-only"
_FULL, _TIMEOUT, _CONFLICT, _DAMAGED = "disk-full", "ledger-timeout", "ledger-conflict", "ledger-damaged"

# PostgreSQL's documentation, appendix A "PostgreSQL Error Codes"; the longest beginning that is here decides.
_BY_STATE: Mapping[str, tuple[str, str]] = {
    "08": (UNREACHABLE, "the connection was lost"),
    "57P": (UNREACHABLE, "the server is starting, stopping, or ended the session"),
    "53300": (UNREACHABLE, "the server has no connection to spare"),
    "28": (LOGIN, "the server refused the login"),
    "3D000": (LOGIN, "the server has no such database"),
    "42501": (LOGIN, "the role may not do this"),
    "53100": (_FULL, "the server's disk is full"),
    "25006": (READ_ONLY, "the server is read-only, as a standby is"),
    "57014": (_TIMEOUT, "the statement took too long"),
    "55P03": (_TIMEOUT, "a lock was not to be had in time"),
    "40": (_CONFLICT, "another transaction was in the way; this one was rolled back"),
    "XX001": (_DAMAGED, "the server found damaged data"),
    "XX002": (_DAMAGED, "the server found a damaged index"),
}
# SQLite's documentation, "Result and Error Codes"; the low byte is the primary code.
_BY_CODE: Mapping[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (_FULL, "the disk is full"),
    sqlite3.SQLITE_READONLY: (READ_ONLY, "the file or its folder may not be written"),
    sqlite3.SQLITE_CANTOPEN: ("ledger-open", "the file cannot be opened"),
    sqlite3.SQLITE_IOERR: ("disk-io", "the disk failed"),
    sqlite3.SQLITE_BUSY: (_TIMEOUT, "a lock was not to be had in time"),
    sqlite3.SQLITE_CORRUPT: (_DAMAGED, "the file is damaged"),
    sqlite3.SQLITE_NOTADB: (_DAMAGED, "the file is no SQLite database"),
}
_PASSING = ("starting up", "shutting down", "too many", "connection slots")  # what a FATAL of a busy server says


@contextmanager
def database_errors(doing: str) -> Iterator[None]:
    """Turn what SQLAlchemy raises into StorageError. The driver's own error is kept only as long as it can name
    neither address nor user."""
    try:
        yield
    except DBAPIError as error:
        rule, reason = _meaning(error)
        raise StorageError(rule, f"{doing}: {reason}") from None
    except SQLAlchemyError as error:
        raise StorageError("ledger", f"{doing}: {type(error).__name__}") from error


def _meaning(error: DBAPIError) -> tuple[str, str]:
    cause = error.orig
    kind = type(cause).__name__
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        rule, reason = _BY_CODE.get((code or 0) & 0xFF, ("ledger", str(cause)))
        return rule, f"{reason} ({getattr(cause, 'sqlite_errorname', kind)})"
    state = getattr(cause, "sqlstate", None)
    if state is None:
        lost = isinstance(error, OperationalError) or error.connection_invalidated
        return _without_state(error) if lost else ("ledger", f"the driver refused it: {kind}")
    diagnosis = getattr(cause, "diag", None)
    named = ", ".join(
        f"{what} {name}"
        for what in ("constraint", "table")
        if (name := getattr(diagnosis, f"{what}_name", None)) is not None
    )
    known = [length for length in (5, 3, 2) if state[:length] in _BY_STATE]
    rule, reason = _BY_STATE[state[: known[0]]] if known else ("ledger", f"the server refused it: {kind}")
    return rule, f"{reason} (SQLSTATE {state}{', ' + named if named else ''})"


def _without_state(error: DBAPIError) -> tuple[str, str]:
    """libpq tells why a connection was not made in text only, in which a server's own word begins with FATAL; whether
    a password was asked for it tells in earnest."""
    connection = getattr(error.orig, "pgconn", None)
    text = str(error.orig)
    asked = connection is not None and (connection.used_password or connection.needs_password)
    if asked or ("FATAL" in text and not any(word in text for word in _PASSING)):
        return LOGIN, "the server refused the login: user, password, database and its pg_hba.conf decide"
    return UNREACHABLE, f"no server answered ({type(error.orig).__name__})"
