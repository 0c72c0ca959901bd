"""Prefect's client in this process: which server it speaks to, how much it says, and that it says it all."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from settings.environment import export
from settings.secret import Secret

# Prefect reads this one from the environment only, when it is imported.
export({"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING"})

from prefect.events.worker import EventsWorker  # noqa: E402
from prefect.logging.handlers import APILogHandler  # noqa: E402
from prefect.settings import (  # noqa: E402
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    temporary_settings,
)


@asynccontextmanager
async def speaking_to(api_url: str, home: Path, auth: Secret | None = None) -> AsyncIterator[None]:
    """Flows in the body report to `api_url`, opened by `auth` where it asks for it. What is queued for the server is
    sent before the body is left: our own server ends right after."""
    opening = {} if auth is None else {PREFECT_API_AUTH_STRING: auth.reveal()}
    with temporary_settings({PREFECT_API_URL: api_url, PREFECT_HOME: home, **opening}):
        try:
            yield
        finally:
            await APILogHandler.aflush()
            sent = EventsWorker.drain_all()
            if inspect.isawaitable(sent):
                await sent
