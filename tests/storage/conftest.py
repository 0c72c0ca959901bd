"""A storage of one's own for each test, and processes that hold something until they are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.home import Storage, open_storage

ROOT = Path(__file__).parents[2]
Dying = Callable[..., None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder that a storage lives in."""
    return tmp_path / "home"


@pytest.fixture
def storage(home: Path) -> Iterator[Storage]:
    """A storage, opened."""
    opened = open_storage(home)
    yield opened
    opened.close()


@pytest.fixture
def in_dying_process() -> Dying:
    """Runs a program that must end by killing itself with SIGKILL."""

    def run(program: str, *arguments: str) -> None:
        died = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, check=False)
        assert died.returncode == -signal.SIGKILL

    return run
