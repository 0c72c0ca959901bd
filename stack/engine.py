"""The embedded worker as a part of the stack: the program that `mosaic worker embedded` is."""

from __future__ import annotations

import signal
import sys

import httpx

from settings.environment import environment_of, minimal_environment
from settings.values import REPOSITORY
from stack.part import Launch, Plan, Start

_TIMEOUT_S = 3.0


class EmbeddedEngine:
    """The engine in the box on a port that stays. Ready: it is healthy, and names the model that it serves."""

    name = "worker"
    needs: tuple[str, ...] = ()
    start_s = 120.0  # 2 s here
    stop_s = 10.0
    stop_signal = signal.SIGTERM

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.url = plan.worker_url

    async def prepare(self, start: Start) -> Launch:  # noqa: ARG002  # it unpacks its model itself
        """How it is started."""
        environment = environment_of(("MOSAIC_",)) | {
            "MOSAIC_HOME": str(self._plan.settings.home),
            "PYTHONPATH": str(REPOSITORY),
        }
        command = [sys.executable, "-P", "-m", "cli", "worker", "embedded", "--port", str(self._plan.ports["worker"])]
        return Launch(command, minimal_environment(environment))

    async def not_ready(self, since: float) -> str | None:  # noqa: ARG002  # answers are proof enough
        """What is wrong with its answers."""
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
                health = await client.get(f"{self.url}/health")
                models = await client.get(f"{self.url}/v1/models")
        except httpx.HTTPError as error:
            return type(error).__name__
        if health.status_code != httpx.codes.OK:
            return f"expected status 200 of /health, got {health.status_code}"
        if models.status_code != httpx.codes.OK or not models.json().get("data"):
            return "it serves no model"
        return None

    async def settle(self) -> None:
        """Nothing is expected in it."""

    async def wind_down(self, pid: int) -> None:
        """Nothing is to be done."""

    def cleanup(self) -> None:
        """It leaves nothing."""
