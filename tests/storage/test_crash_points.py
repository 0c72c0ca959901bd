"""Killed before each step of what storage does: nothing is lost, and after reap nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from settings.secret import Secret
from storage.invariants import LEFT_BEHIND
from tests.storage.conftest import ROOT, environment_of

STEPS = {
    "put": {"_link: link", "publish: fdatasync", "sync_directory: fsync"},
    "stage": {"file_lock: flock", "_linked: link"},
    "release": {"file_lock: flock", "unlink: unlink"},
    "record": {"_link: link", "mkdir: mkdir"},
    "restart": {"mkdir: mkdir"},
    "reap_dead": {"unlink: unlink", "file_lock: flock"},
    "collect_blobs": {"condemn: open", "unlink: unlink", "sync_directory: fsync"},
    "set_aside": {"rename: rename", "sync_directory: fsync"},
}
"""Steps that each must have been killed before, beside those of the database: else the test tests nothing."""

OF_ROWS = {"stage", "release", "record", "reap_dead"}
"""What writes rows at more than one step, so that the database matters."""


def crashes(folder: Path, scenario: str, database_url: Secret | None) -> list[dict[str, Any]]:
    """Kill at every step, in a process of its own."""
    argv = [sys.executable, "-m", "tests.storage.crash_points", str(folder), scenario]
    environment = environment_of(folder, database_url)
    told = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


@pytest.mark.parametrize("scenario", STEPS)
def test_killed_before_any_step_nothing_is_lost_and_reap_leaves_nothing(
    tmp_path: Path, scenario: str, database_url: Secret | None
) -> None:
    """Before reap at most something is left behind, never a damage; after it every invariant holds."""
    if database_url is not None and scenario not in OF_ROWS:
        pytest.skip("no step of it is another one on PostgreSQL")
    seen = crashes(tmp_path, scenario, database_url)
    assert seen[-1]["step"] is None
    assert {crash["step"] for crash in seen} >= STEPS[scenario]
    assert [(crash["step"], crash["after"]) for crash in seen if crash["after"]] == []
    assert {rule for crash in seen for rule in crash["before"]} <= LEFT_BEHIND
