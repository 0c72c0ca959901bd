"""What infra/ ships is well formed by the tools that will read it."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).resolve().parent.parent.parent / "infra" / "systemd"


@pytest.mark.parametrize("unit", sorted(SYSTEMD.iterdir()), ids=lambda unit: unit.name)
def test_unit_files_parse(unit: Path) -> None:
    """Each unit is an ini file with a description, and the timer's service exists."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.read_string(unit.read_text("utf-8"))
    assert parser["Unit"]["Description"]
    assert unit.with_suffix(".service").is_file()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units() -> None:
    """systemd's own verifier finds nothing but the program that this host does not have."""
    told = subprocess.run(["systemd-analyze", "verify", *SYSTEMD.iterdir()], capture_output=True, text=True)
    assert [line for line in told.stderr.splitlines() if "mosaic" in line and "is not executable" not in line] == []
