"""Processes killed at random while they stage, read and sweep, and the control that shows that the test can fail."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from settings.secret import Secret
from storage.home import Storage
from storage.invariants import invariants
from storage.reap import reap
from tests.storage.conftest import ROOT, environment_of

CHAOS_S = 15


def let_loose(home: Path, database_url: Secret | None, seconds: int, kind: str) -> dict[str, int]:
    """Run the chaos in a process of its own."""
    argv = [sys.executable, "-m", "tests.storage.chaos", str(home), str(seconds), kind]
    environment = environment_of(home, database_url)
    told = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode == 0, told.stderr
    counts: dict[str, int] = json.loads(told.stdout)
    return counts


def test_no_file_is_missing_under_a_live_lease_and_nothing_is_left(
    storage: Storage, home: Path, database_url: Secret | None
) -> None:
    """4 workers, a sweeper and an observer, a SIGKILL every 0.2 s: no violation; one reap later nothing is left."""
    counts = let_loose(home, database_url, CHAOS_S, "locked")
    assert counts["violations"] == 0
    assert counts["crashes"] == 0
    assert min(counts["leases"], counts["unlinks"], counts["looks"], counts["kills"]) > 0
    reap(storage, time.time())
    assert invariants(storage, time.time()) == ()
    assert storage.staging.active() == []
    assert [path for path in (home / "staging").rglob("*") if path.is_file()] == []
    assert list(home.rglob(".incoming-*")) == []


def test_without_the_lock_per_path_the_same_chaos_shows_violations(home: Path, database_url: Secret | None) -> None:
    """The negative control: what the test above looks for does occur when the protection is taken away."""
    assert let_loose(home, database_url, 60, "unlocked")["violations"] > 0


def test_no_collector_takes_what_a_live_run_stored(storage: Storage, home: Path, database_url: Secret | None) -> None:
    """Runs and collectors that delete whatever they may, a SIGKILL every 0.2 s: every run finds its media until it
    ends, and what is left is in order."""
    counts = let_loose(home, database_url, 10, "collecting")
    assert (counts["violations"], counts["crashes"]) == (0, 0)
    assert min(counts["leases"], counts["unlinks"], counts["looks"], counts["kills"]) > 0
    reap(storage, time.time())
    assert invariants(storage, time.time()) == ()


def test_collectors_that_wait_for_no_run_do_take_it(home: Path, database_url: Secret | None) -> None:
    """The negative control of the test above."""
    counts = let_loose(home, database_url, 60, "hasty")
    assert counts["violations"] + counts["crashes"] > 0
