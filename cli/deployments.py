"""The deployments of prefect.yaml, their queues, and the automation that ends zombies, registered on a server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from cli.prefect_api import PrefectApi, prefect_api
from contracts.errors import NeedMissing
from sandbox.spawn import spawn_program
from settings.environment import environment_of, minimal_environment
from settings.values import REPOSITORY, Settings
from stack.part import POOL, QUEUES
from stack.prefect import HEARTBEAT_S, SILENCE

BATCH_RUNS = 2  # flow runs of the queue `batch` at a time; the rest of the worker's is for who waits
DEPLOY_S = 300.0
ZOMBIES = "mosaic: crash flow runs without a heartbeat"
_MISSED = 3  # heartbeats
_RUNS = "prefect.flow-run"


async def register(settings: Settings, url: str, auth: str | None) -> dict[str, Any]:
    """Make the pool's queues, the deployments and the automation; returns what is there then. Raises NeedMissing."""
    async with prefect_api(url, auth) as api:
        await _queues(api)
        await _deployments(settings, url, auth)
        await _zombies(api)
        found = await api.post("/deployments/filter", {"deployments": {"tags": {"all_": ["mosaic"]}}})
    deployments = [
        {
            "deployment": each["name"],
            "queue": each["work_queue_name"],
            "schedules": ", ".join(_schedule(schedule) for schedule in each["schedules"]),
            "entrypoint": each["entrypoint"],
            "id": each["id"],
        }
        for each in sorted(found, key=lambda row: str(row["name"]))
    ]
    return {"api": url, "deployments": deployments, "automation": ZOMBIES}


def _schedule(schedule: dict[str, Any]) -> str:
    cron = schedule["schedule"].get("cron", "")
    return f"{schedule.get('slug') or cron} ({cron}{'' if schedule['active'] else ', inactive'})"


async def _queues(api: PrefectApi) -> None:
    await api.post("/work_pools/", {"name": POOL, "type": "process"}, conflict=True)
    for name, priority in QUEUES.items():
        limit = BATCH_RUNS if name == "batch" else None
        queue = {"name": name, "priority": priority, "concurrency_limit": limit}
        if await api.post(f"/work_pools/{POOL}/queues", queue, conflict=True) is None:
            await api.change("PATCH", f"/work_pools/{POOL}/queues/{name}", queue)


async def _deployments(settings: Settings, url: str, auth: str | None) -> None:
    """By Prefect's own command, which knows all of prefect.yaml."""
    environment = {
        **environment_of(("MOSAIC_",)),
        **SILENCE,
        "MOSAIC_HOME": str(settings.home),
        "PREFECT_HOME": str(settings.prefect),
        "PREFECT_API_URL": url,
        "PYTHONPATH": str(REPOSITORY),
    }
    if auth is not None:
        environment["PREFECT_API_AUTH_STRING"] = auth
    settings.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = settings.logs / "deploy.log"
    command = [sys.executable, "-P", "-m", "prefect", "--no-prompt", "deploy", "--all"]
    with log.open("wb") as output:
        child = spawn_program(
            command,
            environment=minimal_environment(environment),
            stdout=output.fileno(),
            stderr=output.fileno(),
            directory=REPOSITORY,
        )
        try:
            async with asyncio.timeout(DEPLOY_S):
                code = await child.wait()
        except TimeoutError:
            raise NeedMissing("deploy", f"prefect deploy did not end within {DEPLOY_S:g} s; see {log}") from None
        finally:
            child.kill()
    if code != 0:
        raise NeedMissing("deploy", f"prefect deploy ended with code {code}: {_last_line(log)}; see {log}")


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


async def _zombies(api: PrefectApi) -> None:
    """A flow run that beat once and then neither beats nor ends is crashed: its worker died.

    An automation that is there as it should be is left alone: to change it makes the server forget whose heartbeats it
    was waiting for."""
    wanted = _zombie_automation()
    known = await api.post("/automations/filter", {"automations": {"name": {"any_": [ZOMBIES]}}})
    if not known:
        await api.post("/automations/", wanted)
    elif not _is_as(known[0], wanted):
        await api.change("PUT", f"/automations/{known[0]['id']}", wanted)


def _zombie_automation() -> dict[str, Any]:
    ends = [f"{_RUNS}.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")]
    within = _MISSED * HEARTBEAT_S
    return {
        "name": ZOMBIES,
        "description": "A flow run whose process died says nothing more; Prefect would show it as running for ever.",
        "enabled": True,
        "trigger": {
            "type": "event",
            "posture": "Proactive",
            "match": {"prefect.resource.id": [f"{_RUNS}.*"]},
            "after": [f"{_RUNS}.heartbeat"],
            "expect": [f"{_RUNS}.heartbeat", *ends],
            "for_each": ["prefect.resource.id"],
            "threshold": 1,
            "within": within,
        },
        "actions": [{"type": "change-flow-run-state", "state": "CRASHED", "message": f"No heartbeat for {within} s."}],
        "tags": ["mosaic"],
    }


def _is_as(found: Any, wanted: Any) -> bool:
    """Whether what the server has holds all of `wanted`; it keeps some lists in another order."""
    if isinstance(wanted, dict):
        return all(name in found and _is_as(found[name], value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(any(_is_as(each, value) for each in found) for value in wanted)
    return bool(found == wanted)
