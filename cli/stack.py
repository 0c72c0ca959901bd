"""What `up`, `down`, `status`, `deploy` and `run --remote` share: the stack of this home, and how its parts are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from contracts.errors import NeedMissing
from settings.values import Settings
from stack.folder import StackFolder
from stack.main import parts_of, plan_of
from stack.part import Part, Plan
from stack.report import PartReport, PartState, StackReport, running_report

PROBE_S = 10.0
COLUMNS = ("part", "state", "address", "restarts", "reason")


@dataclass(frozen=True, slots=True)
class PartNow:
    """A part as the supervisor keeps it, and why it cannot be used now; None when it was used."""

    report: PartReport
    not_ready: str | None

    @property
    def state(self) -> str:
        """One word."""
        if self.report.state is PartState.READY and self.not_ready is not None:
            return "not ready"
        return self.report.state.value

    def to_json(self) -> dict[str, Any]:
        """One object of `parts`."""
        report = self.report
        pid = None if report.process is None else report.process.pid
        return {
            "name": report.name,
            "state": self.state,
            "ready": self.not_ready is None,
            "reason": self.not_ready or "",
            "url": report.url,
            "pid": pid,
            "restarts": report.restarts,
            "log": report.log,
        }

    def row(self) -> tuple[object, ...]:
        """Cells for COLUMNS."""
        return self.report.name, self.state, self.report.url, self.report.restarts or "", self.not_ready or ""


def running_plan(settings: Settings) -> Plan:
    """What the running stack of this home was made from. Raises NeedMissing where none is up."""
    report = running_report(StackFolder(settings.home))
    if report is None:
        raise NeedMissing("stack-down", f"no stack of {settings.home} is up: ./mosaic up")
    return plan_of(settings, report.ports)


async def parts_now(settings: Settings, report: StackReport) -> list[PartNow]:
    """Every part, used once, all at the same time."""
    parts = {part.name: part for part in parts_of(plan_of(settings, report.ports))}
    return list(await asyncio.gather(*(_part_now(parts[each.name], each, report.since) for each in report.parts)))


async def _part_now(part: Part, report: PartReport, since: float) -> PartNow:
    if report.state is not PartState.READY:
        return PartNow(report, report.reason or report.state.value)
    try:
        async with asyncio.timeout(PROBE_S):
            return PartNow(report, await part.not_ready(since))
    except TimeoutError:
        return PartNow(report, f"it did not answer within {PROBE_S:g} s")
