"""Bringing the stack up: start its supervisor or mend what died, wait until every part works, deploy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

from cli.deployments import register
from cli.output import say
from cli.stack import parts_now
from contracts.errors import InputError, NeedMissing
from settings.values import Settings
from stack.control import launch, supervisor_log, take_down, try_now
from stack.folder import StackFolder, StorageOf
from stack.main import ALREADY, plan_of
from stack.report import PartState, Phase, StackReport, last_report, running_report
from stack.storage import check_storage, write_storage

UP_S = 420.0  # over what the slowest chain of parts is given
MEND_S = 300.0
_LOOK_S = 0.1


def bring_up(settings: Settings, storage: StorageOf | None) -> tuple[StackReport, bool]:
    """The stack, up, with its deployments; and whether it was up before.

    Raises NeedMissing with the reason; what this call started is taken down again then. Raises InputError where the
    settings name a server of others."""
    if settings.prefect_api_url is not None:
        raise InputError("stack-prefect", "prefect_api_url names a server already; `up` would start another: unset it")
    folder = StackFolder(settings.home)
    check_storage(folder, storage)
    before = running_report(folder)
    if before is None:
        report = _started(settings, folder, storage)
    else:
        report = _mended(settings, folder, before)
        _deploy(settings, folder, report)
    return report, before is not None


def _started(settings: Settings, folder: StackFolder, storage: StorageOf | None) -> StackReport:
    """Start the supervisor and follow it until it is up. Raises NeedMissing with the reason; nothing runs then."""
    say("mosaic: starting it; some 30 s")
    begin = time.time()
    guardian = launch(folder)
    with _taken_down_unless_up(folder, guardian):
        told: dict[str, str] = {}
        deployed = False
        while time.time() < begin + UP_S:
            report = running_report(folder)
            _say_progress(report, told)
            if report is not None and not deployed and _is_ready(report, "prefect"):
                if storage is StorageOf.STACK:
                    write_storage(plan_of(settings, report.ports))
                _deploy(settings, folder, report)  # while the worker of flows still starts
                deployed = True
            elif report is not None and report.phase is Phase.UP:
                return report
            code = guardian.poll()
            if code is not None and code != ALREADY:
                raise NeedMissing("stack-start", _reason(folder, begin))
            time.sleep(_LOOK_S)
        raise NeedMissing("stack-start", f"the stack was not up within {UP_S:g} s; logs are in {folder.logs}")


@contextmanager
def _taken_down_unless_up(folder: StackFolder, guardian: Popen[bytes]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if guardian.poll() != ALREADY:  # what another `up` started is not ours to stop
            say("mosaic: taking everything down again")
            take_down(folder)
        raise


def _reason(folder: StackFolder, begin: float) -> str:
    report = last_report(folder)
    if report is None or report.phase is not Phase.FAILED or report.since < begin:
        return f"the supervisor ended while it started; its log is {supervisor_log(folder)}"
    return report.reason


def _mended(settings: Settings, folder: StackFolder, report: StackReport) -> StackReport:
    """Wait until every part of a running stack works, starting at once what died. Raises NeedMissing."""
    end = time.monotonic() + MEND_S
    told: dict[str, str] = {part.name: part.state.value for part in report.parts}
    say("mosaic: it is up; using every part of it")
    try_now(report)
    while time.monotonic() < end:
        now = running_report(folder)
        if now is None:
            raise NeedMissing("stack-down", "the stack is being taken down; when it is, ./mosaic up again")
        _say_progress(now, told)
        parts = asyncio.run(parts_now(settings, now)) if now.is_ready else []
        if parts and all(part.not_ready is None for part in parts):
            return now
        time.sleep(_LOOK_S)
    broken = ", ".join(f"{part.report.name}: {part.not_ready}" for part in parts if part.not_ready) or "see the logs"
    raise NeedMissing("stack-mend", f"not ready within {MEND_S:g} s: {broken}; logs are in {folder.logs}")


def _is_ready(report: StackReport, name: str) -> bool:
    return any(part.name == name and part.state is PartState.READY for part in report.parts)


def _say_progress(report: StackReport | None, told: dict[str, str]) -> None:
    for part in report.parts if report is not None else ():
        if told.get(part.name) != part.state.value and part.state.value != "waiting":
            told[part.name] = part.state.value
            say(f"mosaic: {part.name} is {part.state.value}" + (f": {part.reason}" if part.reason else ""))


def _deploy(settings: Settings, folder: StackFolder, report: StackReport) -> None:
    """Register the deployments, once for each start of the stack."""
    start = f"{report.supervisor.pid} {report.supervisor.start}\n"
    if folder.deployed.exists() and folder.deployed.read_text("ascii") == start:
        return
    say("mosaic: registering deployments")
    plan = plan_of(settings, report.ports)
    asyncio.run(register(settings, plan.prefect_api_url, plan.secrets.prefect_auth.reveal()))
    folder.deployed.write_text(start, "ascii")
