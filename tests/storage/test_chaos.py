"""Chaos in small: processes killed at random while they stage and sweep, and the control that shows it can fail."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.storage.chaos import open_staging

ROOT = Path(__file__).parents[2]


def let_loose(home: Path, seconds: int, kind: str) -> dict[str, int]:
    """Run the chaos in a process of its own."""
    argv = [sys.executable, "-m", "tests.storage.chaos", str(home), str(seconds), kind]
    told = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    counts: dict[str, int] = json.loads(told.stdout)
    return counts


def test_no_file_is_missing_under_a_live_lease_and_nothing_is_left(home: Path) -> None:
    """4 workers and a sweeper, a SIGKILL every 0.2 s: no violation; one reconcile later no file, lease or row."""
    counts = let_loose(home, 4, "locked")
    assert counts["violations"] == 0
    assert counts["crashes"] == 0
    assert min(counts["leases"], counts["kills"]) > 0
    staging = open_staging(home, "locked")
    staging.reconcile(0.0)
    assert staging.active() == []
    assert [path for path in (home / "staging").rglob("*") if path.is_file()] == []
    assert list(home.rglob(".incoming-*")) == []
    with sqlite3.connect(home / "ledger" / "leases.sqlite") as raw:
        assert raw.execute("SELECT count(*) FROM staged_copy").fetchone() == (0,)
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


def test_without_the_lock_per_path_the_same_chaos_shows_violations(home: Path) -> None:
    """The negative control: what the test above looks for does occur when the protection is taken away."""
    assert let_loose(home, 30, "unlocked")["violations"] > 0
