"""Runs alembic's migrations within a transaction of the caller's."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData

_HERE = Path(__file__).resolve().parent


def upgrade(tx: Connection, part: str, metadata: MetaData, revision: str) -> None:
    """Bring one part (`leases` or `ledger`) up to `revision`: whole with the transaction, or not at all.

    A database in which nothing is has no revision and is made from the first one on.
    """
    command.upgrade(configuration(part, tx, metadata), revision)


def configuration(part: str, tx: Connection, metadata: MetaData) -> Config:
    """What alembic needs to know; the environment beside this file reads the attributes."""
    config = Config(attributes={"connection": tx, "metadata": metadata})
    config.set_main_option("path_separator", "newline")
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.set_main_option("version_locations", str(_HERE / part).replace("%", "%%"))
    return config
