"""A command line with a home of its own, and bundles that keep a run busy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Mosaic


@pytest.fixture
def mosaic(tmp_path: Path) -> Mosaic:
    """The command line with an empty home."""
    return Mosaic(tmp_path / "home")
