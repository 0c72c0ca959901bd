"""Prefect's server as our own supervised child.

Prefect's ephemeral server takes as long to start and outlives a killed run; this one dies with us (PR_SET_PDEATHSIG)
and keeps its database under MOSAIC_HOME, so the runs stay visible. It listens on loopback only, calls nobody, and
writes task-run records in batches (a third of the default's CPU).
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from contracts.errors import NeedMissing
from contracts.locator import redact_url
from sandbox.spawn import Child, spawn_program
from settings.environment import minimal_environment
from settings.secret import Secret
from stack.prefect import SERVER, authorization

START_SECONDS = 120.0  # 9-14 s here, and several times that on a busy machine
_POLL_SECONDS = 0.2
_REACH_SECONDS = 10.0
_STOP_SECONDS = 5.0  # its records are written in batches; what it has not written then is in our ledger


@asynccontextmanager
async def prefect_server(home: Path, logs: Path) -> AsyncIterator[str]:
    """A running server's API URL; its database is in `home`, its log in `logs`.

    Raises NeedMissing when it is not healthy within `START_SECONDS`."""
    port = _free_port()
    api_url = f"http://127.0.0.1:{port}/api"
    log = logs / "prefect-server.log"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with _database_folder(home, logs) as folder:
        environment = minimal_environment({**SERVER, "PREFECT_HOME": str(folder), "PREFECT_SERVER_UI_API_URL": api_url})
        with log.open("ab") as output:
            server = spawn_program(command, environment=environment, stdout=output.fileno(), stderr=output.fileno())
        try:
            await _until_healthy(server, api_url, log)
            yield api_url
        finally:
            await server.stop(_STOP_SECONDS)


@contextmanager
def _database_folder(home: Path, logs: Path) -> Iterator[Path]:
    """`home`, or a folder of this run alone, removed at its end, while another run's server uses `home`: two servers
    must not migrate one SQLite file."""
    for folder in (home, logs):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        lock = stack.enter_context((home / ".server.lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield Path(stack.enter_context(TemporaryDirectory(dir=home, prefix="beside-", ignore_cleanup_errors=True)))
        else:
            yield home


async def check_reachable(api_url: str, auth: Secret | None) -> None:
    """Raise NeedMissing unless a Prefect server answers at `api_url` and lets us in."""
    headers = {} if auth is None else authorization(auth.reveal())
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_REACH_SECONDS, headers=headers) as client:
            status = (await client.get(f"{api_url}/admin/version")).status_code
    except (httpx.TransportError, httpx.InvalidURL) as error:
        told = f"no Prefect server answers at {redact_url(api_url)} ({type(error).__name__})"
        raise NeedMissing("prefect-server", f"{told}: start it, unset PREFECT_API_URL, or use --direct") from None
    if status == httpx.codes.UNAUTHORIZED:
        told = "Prefect's server refuses the authentication string: set MOSAIC_PREFECT_API_AUTH_STRING"
        raise NeedMissing("prefect-server", told)
    if status != httpx.codes.OK:
        raise NeedMissing(
            "prefect-server", f"expected status 200 from {redact_url(api_url)}/admin/version, got {status}"
        )


async def _until_healthy(server: Child, api_url: str, log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
        try:
            async with asyncio.timeout(START_SECONDS):
                while server.is_alive():
                    try:
                        if (await client.get(f"{api_url}/health")).status_code == httpx.codes.OK:
                            return
                    except httpx.TransportError:
                        pass  # it does not listen yet
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            pass
    raise NeedMissing("prefect-server", f"Prefect's server did not become healthy; its log is {log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
