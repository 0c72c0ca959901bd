"""Name resolution inside the confinement, against a scripted name server in a private network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.intake.dns_lab import NOT_ALLOWED

ROOT = Path(__file__).resolve().parents[2]


def test_what_a_name_server_says_is_vetted_once_and_dialled(tmp_path: Path) -> None:
    """The confined resolver works; bad, mixed and too many answers are denied and noted, a second, changed answer too;
    a name server that is silent about 200 names holds up no other name (step 3)."""
    lab = subprocess.run(
        [sys.executable, "-m", "tests.intake.dns_lab", str(tmp_path / "resolv.conf")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if lab.returncode == NOT_ALLOWED:
        pytest.skip("network and mount namespaces are not allowed here")
    assert lab.returncode == 0, lab.stderr
    assert [json.loads(line) for line in lab.stdout.splitlines()] == [
        {"host": "plain.example.org", "dialled": "127.0.0.1"},
        {"host": "mixed.example.org", "answers": 2, "rule": "address-denied"},
        {"host": "metadata.example.org", "answers": 1, "rule": "address-denied"},
        {"host": "many.example.org", "answers": 40, "rule": "dns-answers-over-limit"},
        {"host": "rebind.example.org", "dialled": "127.0.0.1"},
        {"host": "rebind.example.org", "answers": 1, "rule": "address-denied"},
        {"host": "missing.example.org", "rule": "dns-no-answer"},
        {"host": "plain.example.org", "dialled": "127.0.0.1"},
        {"host": "silent.example.net", "rule": "connect-timeout"},
    ]
