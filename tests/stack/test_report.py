"""What a supervisor says is believed by the lock it holds and by the start of the processes it names."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stack.control import survivors, take_down
from stack.folder import StackFolder
from stack.report import (
    TRANSITIONS,
    PartEvent,
    PartState,
    Phase,
    ProcessOf,
    StackReport,
    advance,
    is_supervised,
    last_report,
    running_report,
    take_lock,
    write_report,
)


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    """An empty stack's folder."""
    made = StackFolder(tmp_path)
    made.make()
    return made


def _report(process: ProcessOf) -> StackReport:
    return StackReport(Phase.UP, "", time.time(), process, process, {"s3": 1}, ())


@pytest.mark.parametrize("state", list(PartState))
@pytest.mark.parametrize("event", list(PartEvent))
def test_what_can_happen_to_a_part(state: PartState, event: PartEvent) -> None:
    """Exactly what the table has; a part that was stopped starts no more, and only one that starts becomes ready."""
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            advance(state, event)
    assert (PartState.STOPPED, PartEvent.START) not in TRANSITIONS
    assert [before for before, after in TRANSITIONS if after is PartEvent.ANSWER] == [PartState.STARTING]


def test_one_supervisor_at_a_time(folder: StackFolder) -> None:
    """A second one does not get the lock; who only looks does not keep it from the first."""
    assert not is_supervised(folder)
    lock = take_lock(folder)
    assert lock is not None
    assert is_supervised(folder)
    assert take_lock(folder) is None
    os.close(lock)
    assert not is_supervised(folder)
    with folder.lock.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        program = "import sys; from stack.folder import *; from stack.report import *; from pathlib import Path\n"
        program += "print(take_lock(StackFolder(Path(sys.argv[1]))) is not None)"
        with subprocess.Popen([sys.executable, "-c", program, str(folder.home)], stdout=subprocess.PIPE) as other:
            time.sleep(0.2)  # it looks longer than any of ours does
            fcntl.flock(looking, fcntl.LOCK_UN)
            assert other.communicate()[0] == b"True\n"


def test_what_the_dead_said(folder: StackFolder) -> None:
    """A report of a supervisor that is gone, or without the lock, is the last one but not a running one."""
    write_report(folder.report, _report(ProcessOf.of(os.getpid())))
    assert last_report(folder) is not None
    assert running_report(folder) is None
    lock = take_lock(folder)
    assert lock is not None
    try:
        assert running_report(folder) == last_report(folder)
        write_report(folder.report, _report(ProcessOf(os.getpid(), 1)))  # our number, of another process
        assert running_report(folder) is None
        folder.report.write_text("{")
        assert (running_report(folder), last_report(folder)) == (None, None)
    finally:
        os.close(lock)


def test_taken_down_without_a_supervisor(folder: StackFolder) -> None:
    """What the last report names is ended; a port that another program has by now is not taken for ours."""
    with socket.create_server(("127.0.0.1", 0)) as other, subprocess.Popen(["sleep", "600"]) as left:
        mark = ProcessOf.of(left.pid)
        port = other.getsockname()[1]
        write_report(folder.report, StackReport(Phase.UP, "", time.time(), mark, mark, {"s3": port}, ()))
        assert survivors(_report(mark), {"s3": port}) == [
            f"supervisor (process {left.pid})",
            f"guardian (process {left.pid})",
            f"port {port} (s3)",
        ]
        ending = threading.Thread(target=left.wait)  # who started it would reap it
        ending.start()
        assert take_down(folder) == []
        ending.join(30)
        assert left.returncode == -signal.SIGKILL
    assert take_down(folder) == []
