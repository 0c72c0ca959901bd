"""A bundle through a deployment: submitted to Prefect's server, followed in the ledger, told like any other run."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cli.analysis import Analysis
from cli.output import say
from cli.prefect_api import PrefectApi, prefect_api, server_of
from contracts.errors import InputError, NeedMissing
from contracts.printable import printable
from pipeline.steps import in_thread
from settings.values import Settings
from storage.home import Storage, storage_of

DEPLOYMENT = "analyze-bundle/analyze-bundle"
_LOOK_S = 0.3
_RUN_ID = re.compile(r"run-\d{8}T\d{6}-[0-9a-f]{8}")  # as the flow's progress artifact names it
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})


async def analyse_remotely(settings: Settings, bundle: str, options: Mapping[str, Any], *, quiet: bool) -> Analysis:
    """Submit the bundle at the path `bundle`, follow the run to its end, and return what the ledger has of it.

    Raises NeedMissing where the server or the deployment is missing, and where the flow run ended without a run;
    InputError where the server refuses the parameters.
    """
    begin = time.monotonic()
    url, auth = server_of(settings)
    async with prefect_api(url, auth) as api:
        flow_run = await _submit(api, {"bundle": {"path": bundle}, "options": dict(options)})
        say(f"mosaic: submitted as flow run {flow_run}; Ctrl-C leaves it running, ./mosaic status shows it")
        storage = await in_thread(storage_of, settings)
        try:
            run, state = await _follow(api, flow_run, storage, settings.tenant, quiet=quiet)
            if run is None:
                told = printable(str(state.get("message") or "it said nothing"))[:500]
                raise NeedMissing("remote-run", f"the flow run ended as {state['type']}, without a run: {told}")
            if state["type"] != "COMPLETED":
                say(
                    f"mosaic: the flow run ended as {state['type']}: {printable(str(state.get('message') or ''))[:500]}"
                )
            results = await in_thread(lambda: list(storage.runs.results(run)))
        finally:
            storage.close()
    written = settings.reports / f"{run}.html"
    report = written if await in_thread(written.exists) else None  # a flow that was stopped has written none
    return Analysis(run, results, report, time.monotonic() - begin, whole=state["type"] == "COMPLETED")


async def _submit(api: PrefectApi, parameters: Mapping[str, Any]) -> str:
    """The id of the flow run."""
    deployment = await api.get(f"/deployments/name/{DEPLOYMENT}", missing="./mosaic deploy registers it")
    made = await api.post(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters}, conflict=True)
    if made is None:
        raise InputError("remote-parameters", "the deployment refuses the parameters: they do not satisfy its schema")
    return str(made["id"])


async def _follow(
    api: PrefectApi, flow_run: str, storage: Storage, tenant: str, *, quiet: bool
) -> tuple[str | None, dict[str, Any]]:
    """The run's id, where it had begun, and the final state of the flow run."""
    run: str | None = None
    told: tuple[str, int] | None = None
    while True:
        state: dict[str, Any] = (await api.get(f"/flow_runs/{flow_run}"))["state"]
        if run is None and state["type"] not in ("SCHEDULED", "PENDING"):
            run = await _run_of(api, flow_run)
        now, tenths = str(state["name"]).lower(), 0
        shown = now
        if run is not None:
            with suppress(InputError):  # it is about to be written
                known = await in_thread(lambda name: storage.runs.get(name, tenant=tenant), run)
                tenths = 10 * known.done // max(1, known.questions)
                shown = f"{run}: {known.done}/{known.questions} {now}"
        if (now, tenths) != told and not quiet:
            say(f"mosaic: {shown}")
        told = now, tenths
        if state["type"] in _ENDED:
            return run, state
        await asyncio.sleep(_LOOK_S)


async def _run_of(api: PrefectApi, flow_run: str) -> str | None:
    """The run that a flow run works on, which its artifacts name."""
    found = await api.post("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [flow_run]}}})
    named = (_RUN_ID.search(artifact.get("description") or "") for artifact in found)
    return next((each.group() for each in named if each), None)


def options_of(overrides: Mapping[str, str], release: str | None, *, again: bool) -> dict[str, Any]:
    """The deployment's parameters for what the command line asks. Raises InputError for what a worker's settings
    decide."""
    limits = []
    for name, value in overrides.items():
        if not name.startswith("limits."):
            raise InputError(
                "remote-set", f"--set {name}: with --remote only limits can be set; the worker has its own"
            )
        limits.append({"name": name.removeprefix("limits."), "value": _number(name, value)})
    # The exit code judges the outcomes.
    return {"again": again, "release": release or "", "limits": limits, "complete_share": 0}


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError("set-form", f"--set {name}: expected a number, got {value!r}") from None
