"""The database of the leases and that of the ledger, as the settings say where they are."""

from __future__ import annotations

import socket
from pathlib import Path

from settings.secret import Secret
from storage.database import Database
from storage.postgresql_database import open_postgresql
from storage.sqlite_database import open_leases, open_ledger


def open_databases(folder: Path, url: Secret | None, host: str | None) -> tuple[Database, Database]:
    """Leases and ledger: two SQLite files in `folder`, or one PostgreSQL that is both, in which this host is `host`
    (the machine's name if None). Raises StorageError."""
    if url is None:
        return open_leases(folder), open_ledger(folder)
    both = open_postgresql(url, host=host or socket.gethostname())
    return both, both
