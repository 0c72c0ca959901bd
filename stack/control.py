"""Starts the supervisor so that it survives the terminal, follows it, and takes the stack down with proof."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from settings.environment import environment_of, minimal_environment
from settings.values import REPOSITORY
from stack.folder import StackFolder
from stack.ports import listening
from stack.report import ProcessOf, StackReport, is_supervised, last_report, running_report

DOWN_S = 90.0  # over the sum of what the parts are given to stop
SWEEP_S = 15.0
_LOOK_S = 0.1
_SWEEP = REPOSITORY / "sandbox" / "run_and_sweep.py"

Tell = Callable[[StackReport | None], None]


def supervisor_log(folder: StackFolder) -> Path:
    """What the supervisor itself says, which is nothing but tracebacks."""
    return folder.logs / "stack-supervisor.log"


def launch(folder: StackFolder) -> subprocess.Popen[bytes]:
    """Start the supervisor under its guardian, in a session of its own; returns the guardian."""
    folder.make()
    environment = {
        **environment_of(("MOSAIC_", "AWS_")),
        "MOSAIC_HOME": str(folder.home),
        "PYTHONPATH": str(REPOSITORY),
    }
    with supervisor_log(folder).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", str(_SWEEP), sys.executable, "-P", "-m", "stack.main"],
            env=minimal_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def try_now(report: StackReport) -> None:
    """Ask the supervisor to start at once what died."""
    _send(report.supervisor, signal.SIGHUP)


def take_down(folder: StackFolder, tell: Tell = lambda _report: None) -> list[str]:
    """Stop the stack in order and wait until nothing is left; returns what is left all the same.

    `tell` is called with what the supervisor says meanwhile. One that does not come to its end is killed, so that its
    guardian sweeps; what a killed one could leave is ended."""
    report = last_report(folder)
    asked: ProcessOf | None = None
    end = time.monotonic() + DOWN_S
    while is_supervised(folder) and time.monotonic() < end:
        running = running_report(folder)
        if running is not None and running.supervisor != asked:  # a supervisor that only just started has said nothing
            report, asked = running, running.supervisor
            _send(asked, signal.SIGTERM)
        tell(running)
        time.sleep(_LOOK_S)
    if report is None:
        return []
    ports = report.ports if asked is not None else {}  # of a stack that was down, others may have them by now
    end = time.monotonic() + SWEEP_S
    while survivors(report, ports) and time.monotonic() < end:
        _send(report.supervisor, signal.SIGKILL)
        if not report.guardian.is_alive:  # else it is sweeping
            for process in report.processes().values():
                _send(process, signal.SIGKILL)
        time.sleep(_LOOK_S)
    return survivors(report, ports)


def survivors(report: StackReport, ports: Mapping[str, int]) -> list[str]:
    """What still runs of a stack that is to be gone, and which of `ports` still answer."""
    alive = [f"{name} (process {each.pid})" for name, each in report.processes().items() if each.is_alive]
    return alive + [f"port {port} ({name})" for name, port in listening(ports).items()]


def _send(process: ProcessOf, number: signal.Signals) -> None:
    """Send a signal to that very process, not to another that has its number now."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if process.is_alive:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
