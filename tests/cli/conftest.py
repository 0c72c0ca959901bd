"""The command line over an empty home, and over one where a bundle was analysed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command import Mosaic
from tests.pipeline.desk import ask, write_bundle

HOSTILE = "\x1b[2J\x9b31m=cmd()"


@pytest.fixture
def mosaic(tmp_path: Path) -> Mosaic:
    """The command line with an empty home."""
    return Mosaic(tmp_path / "home")


@pytest.fixture(scope="session")
def _analysed(tmp_path_factory: pytest.TempPathFactory) -> Mosaic:
    folder = tmp_path_factory.mktemp("analysed")
    mosaic = Mosaic(folder / "home")
    bundle = write_bundle(
        folder / "in",
        ask("good", {"image": "circle.png"}, labels={"expected": HOSTILE}),
        ask("bad", {"image": "absent.png"}),
    )
    ended = mosaic("run", bundle, "--direct", "--json")
    assert ended.code == 1, ended.err
    return mosaic


@pytest.fixture
def analysed(_analysed: Mosaic, tmp_path: Path) -> Mosaic:
    """The command line with a home of its own in which one good and one bad question were analysed."""
    shutil.copytree(_analysed.home, tmp_path / "home", ignore=shutil.ignore_patterns("engine", "logs"))
    return Mosaic(tmp_path / "home")
