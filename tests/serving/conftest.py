"""One calibration worker for all tests of this folder: it loads in half a second, and is shared because it can be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from serving.embedded_worker import EmbeddedWorker


@pytest.fixture(scope="session")
def engine_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with nothing in it yet."""
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worker(engine_home: Path) -> AsyncIterator[EmbeddedWorker]:
    """A ready calibration worker."""
    async with EmbeddedWorker(engine_home, engine_home / "staging") as running:
        yield running
