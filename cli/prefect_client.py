"""Prefect's client in this process: which server it speaks to, how much it says, and that it says it all."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from settings.environment import export

# Prefect reads this one from the environment only, when it is imported.
export({"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING"})

from prefect.events.worker import EventsWorker  # noqa: E402
from prefect.logging.handlers import APILogHandler  # noqa: E402
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings  # noqa: E402


@asynccontextmanager
async def speaking_to(api_url: str, home: Path) -> AsyncIterator[None]:
    """Flows in the body report to `api_url`. What is queued for the server is sent before the body is left: our own
    server ends right after."""
    with temporary_settings({PREFECT_API_URL: api_url, PREFECT_HOME: home}):
        try:
            yield
        finally:
            await APILogHandler.aflush()
            sent = EventsWorker.drain_all()
            if inspect.isawaitable(sent):
                await sent
