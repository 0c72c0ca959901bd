"""Which revision a database has, and how it comes to ours: made at once if it is new, migrated if it is older.

The migrations are alembic's (storage/migrations). A database that is current costs one look and no alembic.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, insert, inspect, select, text

from contracts.errors import StorageError
from storage.schema import LEASES, LEASES_REVISION, LEDGER, LEDGER_REVISION

_BEFORE_ALEMBIC = Table("schema_version", MetaData(), Column("version", Integer))  # leases 1; ledger 1 and 2


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two sets of tables, and the newest of its revisions. `schema` is where it is on PostgreSQL.

    Revisions are numbers from 1 on, one for each released version that changed a table.
    """

    name: str
    schema: str
    metadata: MetaData
    revision: str


LEASES_PART = Part("leases", "mosaic_leases", LEASES, LEASES_REVISION)
LEDGER_PART = Part("ledger", "mosaic_ledger", LEDGER, LEDGER_REVISION)


def is_current(tx: Connection, part: Part) -> bool:
    """Whether nothing is to do."""
    return _revision(tx, part) == part.revision


def prepare(tx: Connection, part: Part) -> None:
    """Make or migrate the part within the caller's transaction, which no other of the kind is beside.

    Raises StorageError (`ledger-schema`) for a database that is not ours, or of a later version.
    """
    if tx.dialect.name == "postgresql":
        _enter_schema(tx, part.schema)
    found = _revision(tx, part) or _adopted(tx, part)
    if found == part.revision:
        return
    if found is None:
        part.metadata.create_all(tx, checkfirst=False)
        stamp(tx, part.revision)
    elif not found.isdecimal() or not 0 < int(found) < int(part.revision):
        known = f"expected the {part.name}'s revision {part.revision} or an earlier one, got {found!r}"
        raise StorageError("ledger-schema", f"{known}: use the version that wrote it, or a backup from before that")
    else:
        from storage.migrations.upgrading import upgrade  # here, because alembic takes longer than most commands

        upgrade(tx, part.name, part.metadata, part.revision)


def stamp(tx: Connection, revision: str) -> None:
    """Write the revision of a database that has none yet, as alembic does."""
    table = _version_table(None)
    table.create(tx)
    tx.execute(insert(table).values(version_num=revision))


def _revision(tx: Connection, part: Part) -> str | None:
    table = _version_table(part.schema if tx.dialect.name == "postgresql" else None)
    if not inspect(tx).has_table(table.name, schema=table.schema):
        return None
    return tx.execute(select(table.c.version_num)).scalar()


def _version_table(schema: str | None) -> Table:
    return Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True), schema=schema)


def _adopted(tx: Connection, part: Part) -> str | None:
    """The version of a database from before alembic, now kept by alembic; None where there is no table at all."""
    names = inspect(tx).get_table_names()
    if not names:
        return None
    if _BEFORE_ALEMBIC.name not in names:
        raise StorageError("ledger-schema", f"the {part.name} has {len(names)} tables but no revision: not ours")
    found = str(tx.execute(select(_BEFORE_ALEMBIC.c.version)).scalar())
    _BEFORE_ALEMBIC.drop(tx)
    stamp(tx, found)
    return found


def _enter_schema(tx: Connection, schema: str) -> None:
    """Make the schema where it is missing (a role may be allowed to use it and not to make it), and work in it."""
    if schema not in inspect(tx).get_schema_names():
        tx.execute(text(f"CREATE SCHEMA {schema}"))
    tx.execute(text(f"SET LOCAL search_path = {schema}"))
