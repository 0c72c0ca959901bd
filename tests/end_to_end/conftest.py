"""A command line with a home of its own, and bundles that keep a run busy."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.command import Mosaic


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_can_be_sent() -> None:
    """A shell starts its background jobs with SIGINT ignored, and the commands of ours would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def mosaic(tmp_path: Path) -> Mosaic:
    """The command line with an empty home."""
    return Mosaic(tmp_path / "home")
