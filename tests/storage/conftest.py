"""A storage of one's own for each test, on either database, and processes that hold something until they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from contracts.digest import Digest
from contracts.lease import LeaseState
from settings.secret import Secret
from storage.home import Storage, open_storage
from storage.postgresql_database import open_postgresql
from storage.schema import lease
from tests.receipt_samples import LEASES, TENANT
from tests.services.postgres import Postgres

ROOT = Path(__file__).parents[2]
HOST = "host-a"
Dying = Callable[..., None]


@pytest.fixture(scope="session")
def prepared_postgres(postgres: Postgres) -> str:
    """The name of an empty ledger's database, to copy."""
    name = postgres.database()
    open_postgresql(Secret(postgres.url(name)), host=HOST).close()
    return name


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def database_url(request: pytest.FixtureRequest) -> Iterator[Secret | None]:
    """Where the test's ledger is, on each database in turn: as the setting says it."""
    if request.param == "SQLite":
        yield None
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.database(request.getfixturevalue("prepared_postgres"))
    yield Secret(server.url(name))
    server.drop(name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder that a storage lives in."""
    return tmp_path / "home"


@pytest.fixture
def storage(home: Path, database_url: Secret | None) -> Iterator[Storage]:
    """A storage, opened."""
    opened = open_storage(home, database_url=database_url, host=HOST)
    let_go(opened)
    yield opened
    opened.close()


def let_go(storage: Storage) -> None:
    """The leases that receipts of tests name, once held and let go: the first two of a new database."""
    row = {
        "host": storage.leases.host,
        "tenant": TENANT,
        "digest": str(Digest.of(b"")),
        "staged_name": "sample",
        "holder": "run-1/1",
        **dict.fromkeys(("boot_id", "pid_namespace"), "sample"),
        **dict.fromkeys(("pid", "pid_start", "acquired_at", "ttl_s", "expires_at"), 0),
        "state": LeaseState.RELEASED.value,
    }
    with storage.leases.write() as tx:
        for each in LEASES:
            assert tx.execute(insert(lease).values(id=each.id, **row).returning(lease.c.fence)).scalar() == each.fence


def environment_of(home: Path, database_url: Secret | None) -> dict[str, str]:
    """What a program is given whose settings are to name the test's storage."""
    environment = {**os.environ, "MOSAIC_HOME": str(home), "MOSAIC_HOST": HOST}
    if database_url is not None:
        environment["MOSAIC_DATABASE_URL"] = database_url.reveal()
    return environment


@pytest.fixture
def in_dying_process(home: Path, database_url: Secret | None) -> Dying:
    """Runs a program that must end by killing itself with SIGKILL; its settings name the test's storage."""
    environment = environment_of(home, database_url)

    def run(program: str, *arguments: str) -> None:
        died = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, env=environment, check=False)
        assert died.returncode == -signal.SIGKILL

    return run
