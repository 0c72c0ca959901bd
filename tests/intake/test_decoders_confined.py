"""A decoder that was taken over: everything that it might try to leave, and what it can still do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.intake.attack_family import ATTACKS, FATAL, ONLY_FETCHERS

ROOT = Path(__file__).resolve().parents[2]
REFUSED = {"EPERM", "EACCES", "ENOSYS"}
ABSENT = {"ENOENT", "ESRCH", "ENOTDIR"}
RIGHTS = ("write into a descriptor that it is given", "allocate 8 MiB")


@pytest.fixture(scope="module", params=["view", "all"], ids=["with namespaces", "without namespaces"])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What came of each attack."""
    home = tmp_path_factory.mktemp("attacked")
    (home / "store").mkdir()
    for file in ("store/blob", "ledger.sqlite"):
        (home / file).write_bytes(b"ours")
        (home / file).chmod(0o666)
    for folder in (home / "store", home, home.parent):
        folder.chmod(0o777)
    command = [sys.executable, "-m", "tests.intake.attack_family", "decoder", request.param, str(home)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    if request.param == "view" and "namespaces" not in said["layers"]:
        pytest.skip("this machine makes no namespaces for this user")
    yield said["outcomes"]
    assert (home / "store" / "blob").read_bytes() == b"ours"
    assert sorted(path.name for path in home.iterdir()) == ["ledger.sqlite", "store"]


@pytest.mark.parametrize("sentence", [*ATTACKS, *ONLY_FETCHERS])
def test_a_decoder_cannot(outcomes: Mapping[str, str], sentence: str) -> None:
    """No file, process, socket, namespace or further memory, whatever else holds it."""
    expected = {"killed"} if sentence in FATAL else REFUSED | ABSENT
    if sentence == "allocate what it has no memory for":
        expected = {"ENOMEM"}
    assert outcomes[sentence] in expected


@pytest.mark.parametrize("sentence", RIGHTS)
def test_a_decoder_can_still(outcomes: Mapping[str, str], sentence: str) -> None:
    """What it needs for its work is not refused: the attacks fail for their own sake."""
    assert outcomes[sentence] == "done"
