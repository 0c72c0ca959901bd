"""`python -m stack.main GUARDIAN_PID`: the supervisor's process, started by `stack.control.launch`."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Mapping

from contracts.errors import EvidenceError
from sandbox.descendants import adopt_orphans
from sandbox.parent_death import die_with_parent
from settings.load import load
from settings.values import Settings
from stack.engine import EmbeddedEngine
from stack.folder import StackFolder, StorageOf, stack_secrets
from stack.part import Part, Plan
from stack.ports import choose_ports
from stack.postgres import Postgres
from stack.prefect import FlowWorker, PrefectServer
from stack.report import Phase, ProcessOf, StackReport, take_lock, write_report
from stack.seaweed import Seaweed
from stack.storage import storage_in_force, write_storage
from stack.supervisor import FAILED, Supervisor

ALREADY = 75  # EX_TEMPFAIL of sysexits.h: another supervisor has the lock


def parts_of(plan: Plan) -> list[Part]:
    """The parts of a stack; a worker of the settings' own stands in for the embedded one."""
    engine = [] if plan.settings.worker_url is not None else [EmbeddedEngine(plan)]
    return [Postgres(plan), Seaweed(plan), *engine, PrefectServer(plan), FlowWorker(plan)]


def plan_of(settings: Settings, ports: Mapping[str, int]) -> Plan:
    """What the parts are made from, on those ports. Raises StorageError."""
    folder = StackFolder(settings.home)
    return Plan(settings, folder, ports, stack_secrets(folder))


def main(guardian: int) -> int:
    """Supervise until told to stop; the exit code."""
    die_with_parent(guardian, signal.SIGTERM)
    adopt_orphans()
    settings = load()
    folder = StackFolder(settings.home)
    folder.make()
    lock = take_lock(folder)
    if lock is None:
        return ALREADY
    try:
        plan = plan_of(settings, choose_ports(folder.ports, settings.ports.chosen))
        if storage_in_force(folder) is StorageOf.STACK:
            write_storage(plan)  # its ports may be others now
        return asyncio.run(_supervise(plan, guardian))
    except EvidenceError as error:
        myself = ProcessOf.of(guardian)
        write_report(folder.report, StackReport(Phase.FAILED, error.reason, time.time(), myself, myself, {}, ()))
        return FAILED


async def _supervise(plan: Plan, guardian: int) -> int:
    return await Supervisor(plan, parts_of(plan), guardian).run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
