"""Databases of every released version become ours and keep what they held; what is newer is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from contracts.errors import StorageError
from settings.secret import Secret
from storage.database import Database
from storage.migrations.upgrading import configuration, upgrade
from storage.postgresql_database import open_postgresql
from storage.revisions import LEASES_PART, LEDGER_PART, Part
from storage.sqlite_database import open_leases, open_ledger
from tests.services.postgres import Postgres
from tests.storage.conftest import HOST

DATABASES = Path(__file__).parents[1] / "vectors" / "databases"
PARTS = [LEASES_PART, LEDGER_PART]
OPENERS: dict[str, Callable[[Path], Database]] = {"leases": open_leases, "ledger": open_ledger}
COPY = {
    "host": "local", "tenant": "t", "staged_name": "n", "digest": "d", "size_bytes": 2**40, "state": "staged",
    "staged_at": 1.0,
}  # fmt: skip
PROCESS = {"boot_id": "boot", "pid_namespace": "ns", "pid": 7, "pid_start": 2**33}
LEASE = {
    "fence": 41, "id": "l", "host": "local", "tenant": "t", "digest": "d", "staged_name": "n", "holder": "r/a",
    **PROCESS,     "acquired_at": 1.0, "ttl_s": 2.0, "expires_at": 3.0, "ended_at": None, "state": "active",
}  # fmt: skip
RUN = {
    "id": "r", "bundle_id": "b", "bundle_digest": "d", "tenant": "t", "engine": "{}", "state": "finished",
    "started_at": 1.0, "ended_at": 2.0, **PROCESS,
}  # fmt: skip
QUESTION = {"run_id": "r", "position": 0, "question_id": "q", "labels": "{}", "state": "done", "result": "{}"}
ATTEMPT = {
    "id": "a", "run_id": "r", "question_id": "q", "number": 1, "state": "closed", "outcome": "complete", "draft": None,
    "result": "{}", "started_at": 1.0, "ended_at": 2.0, **PROCESS,
}  # fmt: skip
RECEIPT = {
    "position": 17, "id": "sha256:0", "attempt_id": "a", "run_id": "r", "question_id": "q", "tenant": "t",
    "outcome": "complete", "question_digest": "d", "identity": "i", "created_at": 2.0, "document": b"\x00{}\xff",
}  # fmt: skip
OUTBOX = {"position": 5, "receipt_id": "sha256:0", "created_at": 2.0, "delivered_at": None}
INSPECTION = {
    "digest": "d", "modality": "image", "derivation": "-", "limits_digest": "l", "document": "{}", "created_at": 1.0,
}  # fmt: skip
ACQUISITION = {
    "position": 9, "attempt_id": "a", "run_id": "r", "question_id": "q", "part_index": 0, "tenant": "t",
    "bundle_digest": "d", "source": "url", "requested_digest": "u", "policy_digest": "p", "limits_digest": "l",
    "max_bytes": 2**35, "rule": "http-status", "digest": None, "asked": True, "lasts": True, "document": "{}",
    "created_at": 1.0,
}  # fmt: skip
Rows = dict[str, dict[str, Any]]
LEDGER_1: Rows = {
    "run": RUN, "question": QUESTION, "attempt": ATTEMPT, "receipt": RECEIPT, "outbox": OUTBOX,
    "inspection": INSPECTION,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Released:
    """A version that somebody may have: what it held, and what later versions add to those rows."""

    part: Part
    version: int
    held: Rows
    added: Rows

    @property
    def script(self) -> str:
        """The tables as that version made them in SQLite, by hand, before there was alembic."""
        return (DATABASES / f"{self.part.name}_{self.version}.sql").read_text("utf-8")


HOSTS: Rows = {"run": {"host": "local"}, "attempt": {"host": "local"}}
RELEASED = [
    Released(LEASES_PART, 1, {"staged_copy": COPY, "lease": LEASE}, {"lease": {"clock_offset_s": None}}),
    Released(LEDGER_PART, 1, LEDGER_1, HOSTS),
    Released(LEDGER_PART, 2, {**LEDGER_1, "acquisition": ACQUISITION}, HOSTS),
]
each_released = pytest.mark.parametrize("old", RELEASED, ids=lambda old: f"{old.part.name} {old.version}")
each_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


def insert_rows(tx: Connection, rows: Rows) -> None:
    """Rows by table, in an order that their references allow."""
    for table, row in rows.items():
        names = ", ".join(row)
        tx.execute(text(f"INSERT INTO {table} ({names}) VALUES (:{', :'.join(row)})"), row)


def rows_of(tx: Connection, tables: Rows) -> Rows:
    """The only row of each of the tables."""
    return {table: dict(tx.execute(text(f"SELECT * FROM {table}")).mappings().one()) for table in tables}


def as_released(folder: Path, old: Released, *more: str) -> Path:
    """A SQLite database as that version left it."""
    path = folder / f"{old.part.name}.sqlite"
    with sqlite3.connect(path) as raw:
        raw.executescript(old.script)
        for statement in more:
            raw.execute(statement)
    raw.close()
    with on_sqlite(path) as tx:
        insert_rows(tx, old.held)
    return path


@contextmanager
def on_sqlite(path: Path) -> Iterator[Connection]:
    """A transaction on a file, past all that is ours."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as tx:
        yield tx
    engine.dispose()


@contextmanager
def on_postgres(server: Postgres, database: str, part: Part) -> Iterator[Connection]:
    """The same on a server, in the part's schema."""
    engine = create_engine(server.url(database).replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as tx:
        tx.execute(text(f"CREATE SCHEMA IF NOT EXISTS {part.schema}"))
        tx.execute(text(f"SET LOCAL search_path = {part.schema}"))
        yield tx
    engine.dispose()


def differences(tx: Connection, part: Part) -> list[Any]:
    """What alembic would change so that the database has the tables of storage.schema."""
    context = MigrationContext.configure(tx, opts={"compare_type": True, "compare_server_default": True})
    return [each for each in compare_metadata(context, part.metadata) if "alembic_version" not in str(each)]


@each_released
def test_a_released_database_is_migrated_and_keeps_its_rows(tmp_path: Path, old: Released) -> None:
    """It becomes what a new one is, references hold, and alembic has it from then on; a second opening changes
    nothing."""
    path = as_released(tmp_path, old)
    for _ in range(2):
        OPENERS[old.part.name](tmp_path).close()
        with on_sqlite(path) as tx:
            expected = {table: {**row, **old.added.get(table, {})} for table, row in old.held.items()}
            assert rows_of(tx, old.held) == expected
            assert differences(tx, old.part) == []
            assert tx.execute(text("PRAGMA foreign_key_check")).all() == []
            assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == old.part.revision
            assert tx.execute(text("SELECT name FROM sqlite_master WHERE name = 'schema_version'")).all() == []


@each_part
def test_a_fence_is_not_given_again_after_a_migration(tmp_path: Path, part: Part) -> None:
    """Numbers go on behind the largest that was ever given, as sqlite_sequence has it."""
    old = next(each for each in RELEASED if each.part is part)
    path = as_released(tmp_path, old)
    OPENERS[part.name](tmp_path).close()
    table, column = ("lease", "fence") if part is LEASES_PART else ("outbox", "position")
    with on_sqlite(path) as tx:
        tx.execute(text(f"DELETE FROM {table}"))
        row = {name: value for name, value in old.held[table].items() if name != column}
        insert_rows(tx, {table: row})
        assert rows_of(tx, {table: {}})[table][column] == old.held[table][column] + 1


@each_released
def test_a_migration_that_fails_changed_nothing(tmp_path: Path, old: Released) -> None:
    """Where its last step finds something in its way, the steps before are undone, and the version is the old one."""
    table = "lease" if old.part is LEASES_PART else "attempt"
    column = "clock_offset_s" if old.part is LEASES_PART else "host"
    path = as_released(tmp_path, old, f"ALTER TABLE {table} ADD COLUMN {column} TEXT")
    before = _shape(path)
    with pytest.raises(StorageError, match="duplicate column"):
        OPENERS[old.part.name](tmp_path)
    assert _shape(path) == before


def _shape(path: Path) -> list[Any]:
    with on_sqlite(path) as tx:
        tables = tx.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name")).all()
        return [*tables, tx.execute(text("SELECT version FROM schema_version")).scalar_one()]


@each_part
def test_on_sqlite_migrations_and_tables_agree(tmp_path: Path, part: Part) -> None:
    """All revisions one after another on nothing make what a new database has."""
    with on_sqlite(tmp_path / "migrated") as tx:
        upgrade(tx, part.name, part.metadata, part.revision)
        assert differences(tx, part) == []
    OPENERS[part.name](tmp_path).close()
    with on_sqlite(tmp_path / f"{part.name}.sqlite") as tx:
        assert differences(tx, part) == []


@each_part
def test_on_postgresql_migrations_and_tables_agree(postgres: Postgres, part: Part) -> None:
    """The same there, down to types and defaults."""
    migrated, new = postgres.database(), postgres.database()
    with on_postgres(postgres, migrated, part) as tx:
        upgrade(tx, part.name, part.metadata, part.revision)
        assert differences(tx, part) == []
    open_postgresql(Secret(postgres.url(new)), host=HOST).close()
    with on_postgres(postgres, new, part) as tx:
        assert differences(tx, part) == []
    columns = (
        "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default "
        f"FROM information_schema.columns WHERE table_schema = '{part.schema}' AND table_name <> 'alembic_version'"
    )
    assert sorted(map(str, postgres.execute(columns, migrated))) == sorted(map(str, postgres.execute(columns, new)))


@each_part
def test_on_postgresql_every_revision_is_migrated_from(postgres: Postgres, part: Part) -> None:
    """A database of each revision, filled, opens and keeps its rows. The first that was released there is the newest
    so far; the ones before prove the scripts."""
    for old in (each for each in RELEASED if each.part is part):
        name = postgres.database()
        with on_postgres(postgres, name, part) as tx:
            upgrade(tx, part.name, part.metadata, str(old.version))
            insert_rows(tx, old.held)
        open_postgresql(Secret(postgres.url(name)), host=HOST).close()
        with on_postgres(postgres, name, part) as tx:
            assert rows_of(tx, old.held) == {
                table: {**row, **old.added.get(table, {})} for table, row in old.held.items()
            }
            assert differences(tx, part) == []


@each_part
def test_the_tables_name_the_newest_revision(tmp_path: Path, part: Part) -> None:
    """One line of revisions, numbered without a gap, whose last storage.schema names."""
    with on_sqlite(tmp_path / "any") as tx:
        scripts = ScriptDirectory.from_config(configuration(part.name, tx, part.metadata))
        found = [script.revision for script in scripts.walk_revisions()]
    assert found == [str(number) for number in range(int(part.revision), 0, -1)]


@pytest.mark.parametrize("found", ["99", "0", "branch-of-somebody"])
@each_part
def test_a_revision_that_is_not_known_is_refused(tmp_path: Path, part: Part, found: str) -> None:
    """It says what to do, and changes nothing."""
    OPENERS[part.name](tmp_path).close()
    with on_sqlite(tmp_path / f"{part.name}.sqlite") as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = :found"), {"found": found})
    with pytest.raises(StorageError, match=f"got '{found}': use the version that wrote it") as refused:
        OPENERS[part.name](tmp_path)
    assert refused.value.rule == "ledger-schema"


def test_a_newer_database_on_postgresql_is_refused(postgres: Postgres) -> None:
    """As on SQLite."""
    name = postgres.database()
    open_postgresql(Secret(postgres.url(name)), host=HOST).close()
    postgres.execute("UPDATE mosaic_ledger.alembic_version SET version_num = '99'", name)
    with pytest.raises(StorageError, match=r"ledger-schema: .*got '99'"):
        open_postgresql(Secret(postgres.url(name)), host=HOST)


@each_part
def test_a_database_of_somebody_else_is_refused(tmp_path: Path, part: Part) -> None:
    """Tables and no revision: it is neither written nor migrated by accident."""
    with on_sqlite(tmp_path / f"{part.name}.sqlite") as tx:
        tx.execute(text("CREATE TABLE theirs (x)"))
    with pytest.raises(StorageError, match=r"ledger-schema: .*not ours"):
        OPENERS[part.name](tmp_path)


@pytest.mark.parametrize("version", [99, 0])
def test_a_version_from_before_alembic_that_never_was_is_refused(tmp_path: Path, version: int) -> None:
    """The table of versions that it had is still there afterwards."""
    path = as_released(tmp_path, RELEASED[0], f"UPDATE schema_version SET version = {version}")
    with pytest.raises(StorageError, match=f"got '{version}'"):
        open_leases(tmp_path)
    assert _shape(path)[-1] == version
