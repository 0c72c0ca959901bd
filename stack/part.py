"""What a part of the stack is to its supervisor: a program, what it needs, when it is ready, how it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.spawn import Child
from settings.values import Settings
from stack.folder import StackFolder, StackSecrets

LOOPBACK = "127.0.0.1"
POOL = "mosaic"
QUEUES: Mapping[str, int] = {"interactive": 1, "batch": 2}
"""The work queues with their priorities: what a person waits for goes first."""

FLOW_STOP_S = 15.0  # what a flow has to close its run: cancel what is in work, record it, let its files go


@dataclass(frozen=True, slots=True)
class Plan:
    """What the parts are made from."""

    settings: Settings
    folder: StackFolder
    ports: Mapping[str, int]
    secrets: StackSecrets

    @property
    def prefect_api_url(self) -> str:
        """Of Prefect's server."""
        return f"http://{LOOPBACK}:{self.ports['prefect']}/api"

    @property
    def ui_url(self) -> str:
        """Of Prefect's pages."""
        return self.prefect_api_url.removesuffix("/api")

    @property
    def s3_url(self) -> str:
        """Of object storage."""
        return f"http://{LOOPBACK}:{self.ports['s3']}"

    @property
    def worker_url(self) -> str:
        """Of the worker that answers questions: the settings' own, or the embedded one."""
        return self.settings.worker_url or f"http://{LOOPBACK}:{self.ports['worker']}"

    def database_url(self, database: str, driver: str = "") -> str:
        """Of a database of PostgreSQL, for `driver` where one is named; with the password in it."""
        password = self.secrets.postgres_password.reveal()
        return f"postgresql{driver}://mosaic:{password}@{LOOPBACK}:{self.ports['postgres']}/{database}"


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start: its whole environment, and the user it runs as where that is not ours."""

    argv: list[str]
    environment: Mapping[str, str]
    user: str | None = None


Start = Callable[[Launch], Child]
"""Starts a program whose output goes to the part's log."""


class Part(Protocol):
    """One part. `needs` are the parts that are to be ready before it starts; it has `start_s` seconds to become ready,
    and `stop_s` after `stop_signal` before it is killed."""

    name: str
    needs: tuple[str, ...]
    url: str
    start_s: float
    stop_s: float
    stop_signal: signal.Signals

    async def prepare(self, start: Start) -> Launch:
        """Make what the program needs, and say how it is started. Raises EvidenceError."""

    async def not_ready(self, since: float) -> str | None:
        """Why it cannot be used, by using it; None when it can. `since` is when it was started, in epoch seconds."""

    async def settle(self) -> None:
        """Make what others expect in it, once it is ready; again after each start."""

    async def wind_down(self, pid: int) -> None:
        """What is done before its process `pid` is told to stop."""

    def cleanup(self) -> None:
        """Remove what the program leaves outside of the stack's folder."""


def log_of(folder: StackFolder, name: str) -> Path:
    """Where a part's output goes."""
    return folder.logs / f"stack-{name}.log"
