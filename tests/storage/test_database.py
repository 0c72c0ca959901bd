"""Transactions: whole or not at all, one writer at a time, and only on a database of ours."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text

from contracts.errors import StorageError
from storage.database import Database, open_leases, open_ledger
from storage.schema import outbox, staged_copy

ROOT = Path(__file__).parents[2]
ROW = {"host": "local", "tenant": "acme", "digest": "d", "size_bytes": 1, "state": "staged", "staged_at": 0.0}


def count(database: Database) -> int:
    """How many staged copies there are."""
    with database.read() as tx:
        return tx.execute(select(func.count()).select_from(staged_copy)).scalar_one()


def test_a_block_that_raises_writes_nothing(tmp_path: Path) -> None:
    """All of a transaction or none of it."""
    database = open_leases(tmp_path)

    def fail_after_writing() -> None:
        with database.write() as tx:
            tx.execute(insert(staged_copy).values(staged_name="a", **ROW))
            raise LookupError

    with pytest.raises(LookupError):
        fail_after_writing()
    assert count(database) == 0


def test_writers_from_many_threads_all_get_through(tmp_path: Path) -> None:
    """Read-modify-write under BEGIN IMMEDIATE loses no update."""
    database = open_leases(tmp_path)

    def one_more(_: int) -> None:
        with database.write() as tx:
            before = tx.execute(select(func.count()).select_from(staged_copy)).scalar_one()
            tx.execute(insert(staged_copy).values(staged_name=str(before), **ROW))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one_more, range(80)))
    assert count(database) == 80


DIE_INSIDE = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import insert
from storage.database import open_leases
from storage.schema import staged_copy
with open_leases(Path(sys.argv[1])).write() as tx:
    tx.execute(insert(staged_copy).values(
        host="local", tenant="acme", staged_name="a", digest="d", size_bytes=1, state="staged", staged_at=0.0))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_inside_its_transaction_wrote_nothing(tmp_path: Path) -> None:
    """Nor does it keep the lock: the next writer gets through."""
    died = subprocess.run([sys.executable, "-c", DIE_INSIDE, str(tmp_path)], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    database = open_leases(tmp_path)
    assert count(database) == 0
    with database.write() as tx:
        tx.execute(insert(staged_copy).values(staged_name="a", **ROW))
    assert count(database) == 1


def test_a_lock_does_not_outlive_its_transaction_in_a_forked_child(tmp_path: Path) -> None:
    """A child forked inside the transaction has the lock file open, and still the next writer gets through."""
    database = open_leases(tmp_path)
    reading, writing = os.pipe()
    with database.write():
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    with database.write() as tx:
        tx.execute(insert(staged_copy).values(staged_name="a", **ROW))
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)


def test_durability_is_what_the_two_databases_need(tmp_path: Path) -> None:
    """Write-ahead log both; leases NORMAL (1), the ledger FULL (2)."""
    for database, synchronous in ((open_leases(tmp_path), 1), (open_ledger(tmp_path), 2)):
        with database.read() as tx:
            assert tx.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert tx.execute(text("PRAGMA synchronous")).scalar() == synchronous
            assert tx.execute(text("PRAGMA foreign_keys")).scalar() == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE schema_version SET version = 99", "expected schema version 2, got 99"),
        ("UPDATE schema_version SET version = 0", "expected schema version 2, got 0"),
        ("DROP TABLE schema_version", "not ours"),
    ],
    ids=["of a later version", "of a version before the first", "of somebody else"],
)
def test_a_foreign_database_is_refused(tmp_path: Path, change: str, reason: str) -> None:
    """It is neither written nor migrated by accident."""
    open_ledger(tmp_path).close()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as raw:
        raw.execute(change)
    raw.close()
    with pytest.raises(StorageError, match=reason) as refused:
        open_ledger(tmp_path)
    assert refused.value.rule == "ledger-schema"


def _older_ledger(folder: Path, *more: str) -> None:
    """A ledger as version 1 left it, with a run in it."""
    open_ledger(folder).close()
    with sqlite3.connect(folder / "ledger.sqlite") as raw:
        raw.execute("DROP TABLE acquisition")
        raw.execute("UPDATE schema_version SET version = 1")
        raw.execute("INSERT INTO run VALUES ('r', 'b', 'd', 't', '{}', 'finished', 1.0, 2.0, 'boot', 'ns', 1, 1)")
        for each in more:
            raw.execute(each)
    raw.close()


def _shape(folder: Path) -> tuple[list[tuple[int]], set[str], list[tuple[str]]]:
    with sqlite3.connect(folder / "ledger.sqlite") as raw:
        version = raw.execute("SELECT version FROM schema_version").fetchall()
        objects = raw.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%acquisition%'").fetchall()
        runs = raw.execute("SELECT id FROM run").fetchall()
    raw.close()
    return version, {name for (name,) in objects}, runs


def test_an_older_ledger_gets_what_it_lacks(tmp_path: Path) -> None:
    """Version 1 becomes version 2 with the table of acquisitions and its indexes, and keeps what it held."""
    _older_ledger(tmp_path)
    open_ledger(tmp_path).close()
    assert _shape(tmp_path) == (
        [(2,)],
        {"acquisition", "acquisition_again", "acquisition_had", "ix_acquisition_run_id"},
        [("r",)],
    )
    open_ledger(tmp_path / "new").close()
    new = _shape(tmp_path / "new")
    assert new[:2] == _shape(tmp_path)[:2]


def test_an_older_ledger_is_changed_whole_or_not_at_all(tmp_path: Path) -> None:
    """Where the last step fails, the table that was made before it is gone, and the version is still the old one."""
    _older_ledger(tmp_path, "CREATE TABLE acquisition_again (x)")
    with pytest.raises(StorageError):
        open_ledger(tmp_path)
    assert _shape(tmp_path) == ([(1,)], {"acquisition_again"}, [("r",)])


def test_errors_of_the_database_are_ours(tmp_path: Path) -> None:
    """A broken reference is a StorageError that names the constraint, not the row."""
    with pytest.raises(StorageError, match="FOREIGN KEY") as broken, open_ledger(tmp_path).write() as tx:
        tx.execute(insert(outbox).values(receipt_id="sha256:none", created_at=0.0))
    assert broken.value.rule == "ledger"
    assert "sha256:none" not in broken.value.reason
