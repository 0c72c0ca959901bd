"""Keeps the parts of the stack: starts each when what it needs is ready, again when it dies, and stops all in order.

Nothing survives it. Its children ask the kernel to die with it; what they leave in sessions of their own is adopted
and ended here while it lives, and by the guardian (`sandbox/run_and_sweep.py`) that it runs under when it dies. When
the guardian dies first, it is told by SIGTERM and stops all in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contracts.errors import EvidenceError, NeedMissing
from sandbox.descendants import Orphans, end_all
from sandbox.spawn import Child, spawn_program
from stack.logs import keep_bounded
from stack.part import FLOW_STOP_S, Launch, Part, Plan, log_of
from stack.report import PartEvent, PartReport, PartState, Phase, ProcessOf, StackReport, advance, write_report

STOPPED, FAILED = 0, 3
_LOOK_S = 0.2  # between two looks at a part that starts
_SWEEP_S = 1.0
_LOGS_EVERY = 5  # sweeps
_STABLE_S = 60.0  # a part that was ready for so long is started again at once
_PAUSE_S = 60.0  # the longest wait before a part that keeps dying is started again


@dataclass(slots=True)
class _Kept:
    """A part and its program."""

    part: Part
    state: PartState = PartState.WAITING
    child: Child | None = None
    process: ProcessOf | None = None
    reason: str = ""
    restarts: int = 0
    failures: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """One run of the stack: `await Supervisor(…).run()` in the main thread, which starts all children."""

    def __init__(self, plan: Plan, parts: Sequence[Part], guardian: int) -> None:
        self._plan = plan
        self._kept = {part.name: _Kept(part) for part in parts}
        self._guardian = ProcessOf.of(guardian)
        self._myself = ProcessOf.of(os.getpid())
        self._since = time.time()
        self._phase = Phase.STARTING
        self._reason = ""
        self._children: list[Child] = []
        self._orphans = Orphans(FLOW_STOP_S)
        self._over = asyncio.Event()

    async def run(self) -> int:
        """Until SIGTERM, or until the first start fails; returns STOPPED or FAILED."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        loop.add_signal_handler(signal.SIGHUP, self._try_now)
        self._tell()
        keeping = [asyncio.create_task(self._keep(kept)) for kept in self._kept.values()]
        tasks = [*keeping, asyncio.create_task(self._sweep()), asyncio.create_task(self._announce())]
        ending = asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait({ending, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                if error := task.exception():  # a defect of ours: nothing may stay behind it
                    self._fail(f"{type(error).__name__}: {error}")
        finally:
            for task in (ending, *tasks):
                task.cancel()
            await asyncio.gather(ending, *tasks, return_exceptions=True)
            await self._stop_all()
        return FAILED if self._phase is Phase.FAILED else STOPPED

    async def _announce(self) -> None:
        for kept in self._kept.values():
            await kept.ready.wait()
        if self._phase is Phase.STARTING:
            self._phase = Phase.UP
            self._tell()
        await self._over.wait()

    async def _keep(self, kept: _Kept) -> None:
        while not self._over.is_set():
            for need in kept.part.needs:
                if need in self._kept:
                    await self._kept[need].ready.wait()
            try:
                await self._bring_up(kept)
                begin = time.monotonic()
                assert kept.child is not None  # noqa: S101  # it was just started
                code = await kept.child.wait()
                kept.failures = 0 if time.monotonic() - begin > _STABLE_S else kept.failures + 1
                self._died(kept, f"it ended with {_ending(code)}")
            except EvidenceError as error:
                kept.failures += 1
                self._died(kept, error.reason)
                if self._phase is Phase.STARTING:
                    self._fail(f"{kept.part.name}: {error.reason}; its log is {self._log(kept)}")
                    return
            kept.wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kept.wake.wait(), min(_PAUSE_S, 2.0**kept.failures - 1))
            kept.restarts += 1

    async def _bring_up(self, kept: _Kept) -> None:
        """Start a part and wait until it is ready. Raises EvidenceError; nothing of it runs then."""
        part, log = kept.part, self._log(kept)
        launch = await part.prepare(lambda prepared: self._start(prepared, log))
        begin = time.time()
        kept.child = self._start(launch, log)
        kept.process = ProcessOf.of(kept.child.pid)
        self._step(kept, PartEvent.START)
        reason: str | None = None
        try:
            async with asyncio.timeout(part.start_s):
                while kept.child.is_alive():
                    reason = await part.not_ready(begin)
                    if reason is None:
                        await part.settle()
                        self._step(kept, PartEvent.ANSWER)
                        kept.ready.set()
                        return
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            kept.child.kill()
            raise NeedMissing("stack-part", f"it was not ready within {part.start_s:g} s: {reason}") from None
        except EvidenceError:
            kept.child.kill()
            raise
        raise NeedMissing("stack-part", f"it ended with {_ending(kept.child.kill())} while it started")

    def _start(self, launch: Launch, log: Path) -> Child:
        with log.open("ab") as output:
            child = spawn_program(
                launch.argv,
                environment=launch.environment,
                stdout=output.fileno(),
                stderr=output.fileno(),
                directory=Path.cwd(),
                user=launch.user,
            )
        self._children = [each for each in self._children if each.returncode is None]
        self._children.append(child)
        return child

    async def _sweep(self) -> None:
        """End what dead parts left, and keep the logs bounded."""
        for turn in range(1 << 62):
            await asyncio.sleep(_SWEEP_S)
            self._orphans.tend({each.pid for each in self._children if each.returncode is None}, time.monotonic())
            if turn % _LOGS_EVERY == 0:
                keep_bounded(self._plan.folder.logs)

    async def _stop_all(self) -> None:
        """Stop each part when nothing that needs it is left, then whatever else there is."""
        if self._phase is not Phase.FAILED:
            self._phase = Phase.STOPPING
        self._tell()
        left = dict(self._kept)
        while left:
            needed = {name for kept in left.values() for name in kept.part.needs}
            free = [name for name in left if name not in needed]
            await asyncio.gather(*(self._stop(left.pop(name)) for name in free))
        end_all()
        if self._phase is Phase.STOPPING:
            self._phase = Phase.STOPPED
        self._tell()

    async def _stop(self, kept: _Kept) -> None:
        child = kept.child
        if child is not None and child.returncode is None:
            await kept.part.wind_down(child.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, kept.part.stop_signal)  # of the program alone: it ends its own children in order
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(kept.part.stop_s):
                    await child.wait()
            child.kill()
        kept.part.cleanup()
        kept.process = None
        self._step(kept, PartEvent.STOP)

    def _try_now(self) -> None:
        for kept in self._kept.values():
            kept.wake.set()

    def _died(self, kept: _Kept, reason: str) -> None:
        kept.ready.clear()
        kept.reason, kept.process = reason, None
        if kept.state in (PartState.STARTING, PartState.READY):
            kept.state = advance(kept.state, PartEvent.DIE)
        self._tell()

    def _fail(self, reason: str) -> None:
        self._phase, self._reason = Phase.FAILED, reason
        self._over.set()

    def _step(self, kept: _Kept, event: PartEvent) -> None:
        kept.state = advance(kept.state, event)
        if event is PartEvent.ANSWER:
            kept.reason = ""
        self._tell()

    def _log(self, kept: _Kept) -> Path:
        return log_of(self._plan.folder, kept.part.name)

    def _tell(self) -> None:
        parts = tuple(
            PartReport(name, kept.state, kept.process, kept.part.url, kept.restarts, kept.reason, str(self._log(kept)))
            for name, kept in self._kept.items()
        )
        report = StackReport(
            self._phase, self._reason, self._since, self._myself, self._guardian, dict(self._plan.ports), parts
        )
        write_report(self._plan.folder.report, report)


def _ending(code: int) -> str:
    return f"code {code}" if code >= 0 else f"signal {-code}"
