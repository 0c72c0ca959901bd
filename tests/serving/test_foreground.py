"""The embedded worker in the foreground."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from contracts.errors import WorkerUnavailable
from serving.embedded_worker import EmbeddedWorker
from serving.foreground import serve_until_stopped

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stops_on_signal(engine_home: Path, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end the serving without an error, and the worker with it."""
    seen: list[int] = []

    def announce(worker: EmbeddedWorker) -> None:
        assert worker.pid is not None
        seen.append(worker.pid)
        os.kill(os.getpid(), number)

    await serve_until_stopped(EmbeddedWorker(engine_home, engine_home / "staging"), announce)
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


async def test_death_is_told(engine_home: Path) -> None:
    """A worker that dies by itself ends the serving with an error that has its code."""

    def announce(worker: EmbeddedWorker) -> None:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

    with pytest.raises(WorkerUnavailable, match="ended with code -9"):
        await serve_until_stopped(EmbeddedWorker(engine_home, engine_home / "staging"), announce)
