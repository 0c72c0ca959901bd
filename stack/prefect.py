"""Prefect's server and the worker that runs flows, as programs: how they are started, and when they are truly ready.

What their environments say is measured: batches of task-run records cost a third of the default's CPU, and nobody is
called. The server is on loopback and asks for the authentication string; flows get it, confined children do not.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import signal
import sys
from collections.abc import Mapping
from datetime import datetime

import httpx

from sandbox.descendants import children, signal_group
from settings.environment import environment_of, minimal_environment
from settings.values import REPOSITORY
from stack.part import FLOW_STOP_S, LOOPBACK, POOL, Launch, Plan, Start
from stack.postgres import PREFECT_DATABASE

SILENCE: Mapping[str, str] = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",  # the default, pickle, runs code of whoever can write results
}
"""For every process that imports Prefect."""
SERVER: Mapping[str, str] = {
    **SILENCE,
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}
"""For the server."""
HEARTBEAT_S = 30  # of flow runs, the least there is; the automation that `deploy` registers waits for three
POLL_S = 2.0  # how often the worker looks for runs; Prefect's default of 10 is most of a small run's time
_WORKER_HEARTBEAT_S = 10
_FLOWS_AT_A_TIME = 4
_TIMEOUT_S = 3.0
_LOOK_S = 0.1
_LATE = 6  # beats or polls that may be missed


class PrefectServer:
    """The server on PostgreSQL. Ready: its database answers, the API takes our string, and takes nobody without it."""

    name = "prefect"
    needs: tuple[str, ...] = ("postgres",)
    start_s = 240.0  # 15 s here, of which its first migrations are most; several times that on a busy machine
    stop_s = 10.0
    stop_signal = signal.SIGTERM

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.url = plan.ui_url

    async def prepare(self, start: Start) -> Launch:  # noqa: ARG002  # it migrates its database itself
        """How it is started."""
        home = self._plan.folder.root / "prefect"
        environment = {
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": self._plan.database_url(PREFECT_DATABASE, "+asyncpg"),
            "PREFECT_SERVER_API_AUTH_STRING": self._plan.secrets.prefect_auth.reveal(),
            "PREFECT_SERVER_UI_API_URL": self._plan.prefect_api_url,  # else the UI asks port 4200, whatever the port is
            # Slots of deployments' limits are leases; in memory, the default, a restart forgets who holds them.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        }
        port = str(self._plan.ports["prefect"])
        command = [sys.executable, "-P", "-m", "prefect", "server", "start", "--host", LOOPBACK, "--port", port]
        return Launch(command, minimal_environment({**SERVER, **environment}))

    async def not_ready(self, since: float) -> str | None:  # noqa: ARG002  # answers are proof enough
        """What is wrong with its answers."""
        api, auth = self._plan.prefect_api_url, authorization(self._plan.secrets.prefect_auth.reveal())
        asked: tuple[tuple[str, Mapping[str, str], int], ...] = (
            ("ready", {}, httpx.codes.OK),
            ("admin/version", auth, httpx.codes.OK),
            ("admin/version", {}, httpx.codes.UNAUTHORIZED),
        )
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
                for path, headers, expected in asked:
                    status = (await client.get(f"{api}/{path}", headers=headers)).status_code
                    if status != expected:
                        return f"expected status {expected} of {path}, got {status}"
        except httpx.HTTPError as error:
            return type(error).__name__
        return None

    async def settle(self) -> None:
        """Its deployments are registered by `deploy`."""

    async def wind_down(self, pid: int) -> None:
        """Nothing is to be done."""

    def cleanup(self) -> None:
        """It leaves nothing."""


class FlowWorker:
    """The process worker of our pool. Ready: the server has its heartbeat, and it has asked for runs."""

    name = "flows"
    needs: tuple[str, ...] = ("prefect", "worker", "s3")
    start_s = 180.0  # 5 s here
    stop_s = 10.0
    stop_signal = signal.SIGTERM

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.url = f"{plan.ui_url}/work-pools/work-pool/{POOL}"

    async def prepare(self, start: Start) -> Launch:  # noqa: ARG002  # it makes the pool itself
        """How it is started: with the settings that are in force here, and this stack's addresses."""
        environment = {
            **environment_of(("MOSAIC_", "AWS_")),
            **SILENCE,
            **client_environment(self._plan),
            "MOSAIC_HOME": str(self._plan.settings.home),
            "MOSAIC_WORKER_URL": self._plan.worker_url,
            "PYTHONPATH": str(REPOSITORY),
            "REPOSITORY_OF_MOSAIC": str(REPOSITORY),  # for prefect.yaml; a MOSAIC_ variable would be a setting
            "PREFECT_WORKER_QUERY_SECONDS": str(POLL_S),
            "PREFECT_WORKER_HEARTBEAT_SECONDS": str(_WORKER_HEARTBEAT_S),
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
            "PREFECT_RUNNER_AUTO_INSTALL_DEPENDENCIES": "false",  # the environment is pinned; uv would make another
        }
        command = [sys.executable, "-P", "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
        command += ["--name", "single-host", "--limit", str(_FLOWS_AT_A_TIME)]
        return Launch(command, minimal_environment(environment))

    async def not_ready(self, since: float) -> str | None:
        """Which sign of life is missing on the server, or is from before `since`."""
        pool = f"{self._plan.prefect_api_url}/work_pools/{POOL}"
        headers = authorization(self._plan.secrets.prefect_auth.reveal())
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S, headers=headers) as client:
                workers = await client.post(f"{pool}/workers/filter", json={})
                queues = await client.post(f"{pool}/queues/filter", json={})
        except httpx.HTTPError as error:
            return type(error).__name__
        if workers.status_code != httpx.codes.OK or queues.status_code != httpx.codes.OK:
            return f"expected status 200 of its pool, got {workers.status_code} and {queues.status_code}"
        now = datetime.now().astimezone().timestamp()
        beat = _latest([row["last_heartbeat_time"] for row in workers.json() if row["name"] == "single-host"])
        if beat < max(since, now - _LATE * _WORKER_HEARTBEAT_S):
            return "it has sent no heartbeat"
        if _latest([row["last_polled"] for row in queues.json()]) < max(since, now - _LATE * _WORKER_HEARTBEAT_S):
            return "it has not asked for runs"
        return None

    async def settle(self) -> None:
        """Nothing is expected in it."""

    async def wind_down(self, pid: int) -> None:
        """Let the flows close their runs while ledger and server are there: the worker, when it stops, kills them."""
        told: set[int] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLOW_STOP_S):
                while flows := children(pid):
                    for flow in flows - told:
                        signal_group(flow, signal.SIGTERM)
                    told |= flows
                    await asyncio.sleep(_LOOK_S)

    def cleanup(self) -> None:
        """It leaves nothing."""


def authorization(auth_string: str) -> dict[str, str]:
    """The header that Prefect's server takes for `user:password` (RFC 7617)."""
    return {"Authorization": f"Basic {base64.b64encode(auth_string.encode()).decode()}"}


def client_environment(plan: Plan) -> dict[str, str]:
    """What makes a Prefect client speak to this stack's server."""
    return {
        "PREFECT_HOME": str(plan.folder.root / "prefect"),
        "PREFECT_API_URL": plan.prefect_api_url,
        "PREFECT_API_AUTH_STRING": plan.secrets.prefect_auth.reveal(),
    }


def _latest(times: list[str | None]) -> float:
    return max((datetime.fromisoformat(time).timestamp() for time in times if time), default=0.0)
