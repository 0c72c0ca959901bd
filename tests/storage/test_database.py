"""Transactions: whole or not at all, none lost, and errors in our words, on both databases."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text

from contracts.errors import StorageError
from settings.secret import Secret
from storage.database import Database, begins_with
from storage.home import Storage
from storage.schema import outbox, staged_copy
from storage.sqlite_database import open_leases, open_ledger
from tests.storage.conftest import Dying

ROW = {"host": "local", "tenant": "acme", "digest": "d", "size_bytes": 1, "state": "staged", "staged_at": 0.0}


def count(database: Database) -> int:
    """How many staged copies there are."""
    with database.read() as tx:
        return tx.execute(select(func.count()).select_from(staged_copy)).scalar_one()


def add(database: Database, name: str) -> None:
    """One more staged copy."""
    with database.write() as tx:
        tx.execute(insert(staged_copy).values(staged_name=name, **ROW))


def test_a_block_that_raises_writes_nothing(storage: Storage) -> None:
    """All of a transaction or none of it."""

    def fail_after_writing() -> None:
        with storage.leases.write() as tx:
            tx.execute(insert(staged_copy).values(staged_name="a", **ROW))
            raise LookupError

    with pytest.raises(LookupError):
        fail_after_writing()
    assert count(storage.leases) == 0


def test_writers_from_many_threads_all_get_through(storage: Storage) -> None:
    """None is refused and none is lost."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add(storage.leases, str(number)), range(80)))
    assert count(storage.leases) == 80


def test_read_modify_write_of_one_writer_after_another_on_sqlite(tmp_path: Path) -> None:
    """Under BEGIN IMMEDIATE what was read is still so when it is written."""
    database = open_leases(tmp_path)

    def one_more(_: int) -> None:
        with database.write() as tx:
            before = tx.execute(select(func.count()).select_from(staged_copy)).scalar_one()
            tx.execute(insert(staged_copy).values(staged_name=str(before), **ROW))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one_more, range(80)))
    assert count(database) == 80


def test_a_reader_sees_one_state(storage: Storage) -> None:
    """What is committed while it reads it does not see, and it can write nothing."""
    with storage.leases.read() as tx:
        query = select(func.count()).select_from(staged_copy)
        assert tx.execute(query).scalar_one() == 0
        add(storage.leases, "a")
        assert tx.execute(query).scalar_one() == 0
    assert count(storage.leases) == 1


DIE_INSIDE = """
import os, signal
from settings.load import load
from sqlalchemy import insert
from storage.home import storage_of
from storage.schema import staged_copy
with storage_of(load()).leases.write() as tx:
    tx.execute(insert(staged_copy).values(
        host="local", tenant="acme", staged_name="a", digest="d", size_bytes=1, state="staged", staged_at=0.0))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_inside_its_transaction_wrote_nothing(
    storage: Storage, in_dying_process: Dying
) -> None:
    """Nor does it keep the lock: the next writer gets through."""
    in_dying_process(DIE_INSIDE)
    assert count(storage.leases) == 0
    add(storage.leases, "a")
    assert count(storage.leases) == 1


def test_a_lock_does_not_outlive_its_transaction_in_a_forked_child(storage: Storage) -> None:
    """A child forked inside the transaction has the lock file open, and still the next writer gets through."""
    reading, writing = os.pipe()
    with storage.leases.write():
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    add(storage.leases, "a")
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)


def test_a_forked_child_has_connections_of_its_own(storage: Storage) -> None:
    """Parent and child write through what the parent opened, at once; neither sees the other's answers or ends its
    session."""
    add(storage.leases, "before")
    child = os.fork()
    if child == 0:
        try:
            for number in range(50):
                add(storage.leases, f"child {number}")
            os._exit(0)
        finally:
            os._exit(1)
    for number in range(50):
        add(storage.leases, f"parent {number}")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert count(storage.leases) == 101


def test_beginnings_are_compared_by_code_point(storage: Storage) -> None:
    """Upper and lower case differ, wildcards are letters, and what follows may be any character."""
    for name in ("ab", "abc", "ab\U0010fffe", "aB", "a%", "a_", "b"):
        add(storage.leases, name)
    with storage.leases.read() as tx:
        found = {
            beginning: set(
                tx.scalars(select(staged_copy.c.staged_name).where(begins_with(staged_copy.c.staged_name, beginning)))
            )
            for beginning in ("ab", "a%", "A", "")
        }
    assert found["ab"] == {"ab", "abc", "ab\U0010fffe"}
    assert (found["a%"], found["A"], len(found[""])) == ({"a%"}, set(), 7)


def test_durability_is_what_the_two_databases_need(tmp_path: Path) -> None:
    """Write-ahead log both; leases NORMAL (1), the ledger FULL (2)."""
    for database, synchronous in ((open_leases(tmp_path), 1), (open_ledger(tmp_path), 2)):
        with database.read() as tx:
            assert tx.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert tx.execute(text("PRAGMA synchronous")).scalar() == synchronous
            assert tx.execute(text("PRAGMA foreign_keys")).scalar() == 1


def test_errors_of_the_database_are_ours(storage: Storage, database_url: Secret | None) -> None:
    """A broken reference is a StorageError that says so, and not what was in the row."""
    named = "FOREIGN KEY" if database_url is None else "constraint outbox_receipt_id_fkey"
    with pytest.raises(StorageError, match=named) as broken, storage.ledger.write() as tx:
        tx.execute(insert(outbox).values(receipt_id="sha256:none", created_at=0.0))
    assert broken.value.rule == "ledger"
    assert "sha256:none" not in _all_that_is_told(broken.value)


def test_what_an_error_tells_has_no_parameters(storage: Storage) -> None:
    """Nor has its cause, which a log shows with it."""
    with pytest.raises(StorageError) as refused, storage.ledger.write() as tx:
        tx.execute(text("INSERT INTO nowhere VALUES (:body)"), {"body": "a secret body"})
    assert refused.value.rule == "ledger"
    assert "a secret body" not in _all_that_is_told(refused.value)


def test_a_file_that_is_no_database_is_told_as_such(tmp_path: Path) -> None:
    """`ledger-damaged`, whose remedy is a backup."""
    (tmp_path / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match="ledger-damaged"):
        open_ledger(tmp_path)


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    """SQLite's own bound on pages gives the very error of a full disk."""
    ledger = open_ledger(tmp_path)
    with ledger.read() as tx:
        tx.exec_driver_sql("PRAGMA max_page_count = 1")  # of this connection, which the pool gives out again
    with pytest.raises(StorageError, match="disk-full"), ledger.write() as tx:
        tx.exec_driver_sql("CREATE TABLE filler AS SELECT zeroblob(1000000) AS zeros")
    with sqlite3.connect(tmp_path / "ledger.sqlite") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


def _all_that_is_told(error: BaseException) -> str:
    told = str(error)
    for further in (error.__cause__, None if error.__suppress_context__ else error.__context__):
        told += "" if further is None else _all_that_is_told(further)
    return told
