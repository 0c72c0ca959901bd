"""What only PostgreSQL can refuse: each a rule of ours, and the URL in none of it."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from contracts.errors import InputError, StorageError
from settings.secret import Secret
from storage.database_errors import database_errors
from storage.postgresql_database import check_server, open_postgresql
from tests.services.postgres import GUARDED, PASSWORD, Postgres, running_postgres
from tests.storage.conftest import HOST

WRONG = "wr0ng-p4ss"


@pytest.fixture
def database(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


def refusal(url: str) -> StorageError:
    """How a URL is refused; the URL, its user and its password are not told."""
    with pytest.raises(StorageError) as refused:
        open_postgresql(Secret(url), host=HOST)
    for told in (str(refused.value), repr(refused.value.__cause__)):
        assert not [part for part in (url, WRONG, "guarded", "postgresql://") if part in told]
    return refused.value


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """No socket, and no listener: `ledger-unreachable`."""
    assert refusal(f"postgresql:///x?host={tmp_path}").rule == "ledger-unreachable"
    assert refusal(f"postgresql://u:{WRONG}@127.0.0.1:1/x").rule == "ledger-unreachable"


def test_a_wrong_password_and_a_missing_one(postgres: Postgres, database: str) -> None:
    """`ledger-login`, as for a database or a role that the server does not have; with the right one it goes on to
    what the role may do."""
    assert refusal(postgres.url(database, GUARDED, WRONG)).rule == "ledger-login"
    assert refusal(postgres.url(database, GUARDED)).rule == "ledger-login"
    assert refusal(postgres.url("missing")).rule == "ledger-login"
    assert refusal(postgres.url(database, "nobody-of-ours")).rule == "ledger-login"
    entered = refusal(postgres.url(database, GUARDED, PASSWORD.replace("/", "%2F").replace("@", "%40")))
    assert (entered.rule, "42501" in entered.reason) == ("ledger-login", True)


def test_a_role_that_may_only_use_what_is_there(postgres: Postgres, database: str) -> None:
    """Once an owner has made the schemas, a role without the right to make any opens the database."""
    open_postgresql(Secret(postgres.url(database)), host=HOST).close()
    for schema in ("mosaic_leases", "mosaic_ledger"):
        postgres.execute(f"GRANT USAGE ON SCHEMA {schema} TO {GUARDED}", database)
        postgres.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {GUARDED}", database)
    url = postgres.url(database, GUARDED, PASSWORD.replace("/", "%2F").replace("@", "%40"))
    opened = open_postgresql(Secret(url), host=HOST)
    with opened.read() as tx:
        assert tx.execute(text("SELECT count(*) FROM receipt")).scalar() == 0
    opened.close()


def test_a_standby_is_refused() -> None:
    """It answers, and could record nothing: `ledger-read-only`."""
    with running_postgres(standby=True) as server:
        assert refusal(server.url("postgres")).rule == "ledger-read-only"


def test_a_server_of_before_15_is_refused() -> None:
    """The version is told; one of the oldest that is taken passes."""
    with pytest.raises(StorageError, match=r"ledger-version: .* 15 or later, got 14\.19"):
        check_server(140_019, standby=False)
    check_server(150_000, standby=False)


def test_what_is_no_url_is_refused_without_being_shown() -> None:
    """Also where it reaches us past the settings."""
    with pytest.raises(InputError, match="settings-type") as refused:
        open_postgresql(Secret(f"{WRONG} of somebody"), host=HOST)
    assert WRONG not in refused.value.reason


def test_a_lock_is_waited_for_only_so_long(postgres: Postgres, database: str) -> None:
    """`ledger-timeout`, by the server's own clock."""
    opened = open_postgresql(Secret(postgres.url(database)), host=HOST)
    with psycopg.connect(postgres.url(database)) as other:
        other.execute("LOCK TABLE mosaic_ledger.run")
        for kind in ("lock", "statement"):
            with pytest.raises(StorageError, match="ledger-timeout"), opened.write() as tx:
                tx.execute(text(f"SET LOCAL {kind}_timeout = 50; DELETE FROM run"))
    with opened.read() as tx:
        limits = [tx.execute(text(f"SHOW {name}_timeout")).scalar() for name in ("lock", "statement")]
    assert limits == ["10s", "30s"]
    opened.close()


def test_a_session_that_was_ended_is_replaced(postgres: Postgres, database: str) -> None:
    """The server ends every idle session, as its restart does; the next transaction gets another."""
    opened = open_postgresql(Secret(postgres.url(database)), host=HOST)
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    with opened.write() as tx:
        assert tx.execute(text("SELECT count(*) FROM run")).scalar() == 0
    opened.close()


def test_a_write_in_a_read_is_refused(postgres: Postgres, database: str) -> None:
    """`ledger-read-only`, as from a primary that became a standby."""
    opened = open_postgresql(Secret(postgres.url(database)), host=HOST)
    with pytest.raises(StorageError, match="ledger-read-only"), opened.read() as tx:
        tx.execute(text("DELETE FROM run"))
    opened.close()


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (psycopg.errors.DiskFull, "disk-full"),
        (psycopg.errors.DeadlockDetected, "ledger-conflict"),
        (psycopg.errors.AdminShutdown, "ledger-unreachable"),
        (psycopg.errors.TooManyConnections, "ledger-unreachable"),
        (psycopg.errors.DataCorrupted, "ledger-damaged"),
        (psycopg.errors.ReadOnlySqlTransaction, "ledger-read-only"),
        (psycopg.errors.UniqueViolation, "ledger"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_each_kind_of_error_has_its_rule(
    postgres: Postgres, database: str, error: type[psycopg.Error], rule: str
) -> None:
    """Raised by the server with the very SQLSTATE."""
    opened = open_postgresql(Secret(postgres.url(database)), host=HOST)
    code = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{error.sqlstate}', MESSAGE = 'a secret body'; END $$"
    with pytest.raises(StorageError) as told, opened.write() as tx:
        tx.execute(text(code))
    assert (told.value.rule, "a secret body" in str(told.value)) == (rule, False)
    opened.close()


def test_first_openers_at_once_make_it_once(postgres: Postgres, database: str) -> None:
    """Eight of them on an empty database: the others wait for the first and find it made."""
    failed: list[BaseException] = []

    def open_it() -> None:
        try:
            open_postgresql(Secret(postgres.url(database)), host=HOST).close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_other_errors_of_sqlalchemy_are_ours_too() -> None:
    """What is no error of a driver, a pool that is empty for example."""
    from sqlalchemy.exc import TimeoutError as PoolEmpty

    with pytest.raises(StorageError, match="ledger: read: TimeoutError"), database_errors("read"):
        raise PoolEmpty
