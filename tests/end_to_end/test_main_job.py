"""The main job on the real engine: the first example, and the demonstration through Prefect."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import REPOSITORY, Mosaic, children_of, left_behind
from tests.pipeline.desk import receipts

pytestmark = pytest.mark.engine

KEYS = {
    "id", "outcome", "rule", "reason", "answer", "structured", "finish_reason", "usage", "parts", "attempt",
    "question_digest", "request_digest", "stream_digest", "receipt", "seconds", "labels", "engine",
}  # fmt: skip
_BAD = {
    "gone": ("source_failed", "http-status"),
    "inside": ("refused", "address-denied"),
    "truncated": ("refused", "image-truncated"),
    "disguised": ("refused", "type-not-accepted"),
    "oversize": ("source_failed", "body-over-limit"),
    "drip": ("source_failed", "minimum-rate"),
    "one-token": ("length_limited", "finish-length"),
}


def _run(mosaic: Mosaic, *arguments: str | Path) -> tuple[int, str, str]:
    """A command to its end, which leaves nothing: no child, no lease, no file."""
    process = mosaic.start(*arguments)
    out, err = process.communicate(timeout=110)
    assert children_of(process.pid, mosaic.home) == {}
    assert left_behind(mosaic.home) == []
    return process.returncode, out, err


def test_first_example(mosaic: Mosaic) -> None:
    """The first example is answered rightly with exit 0; the second time from the ledger, which it says; asked
    again the engine answers the same."""
    bundle = REPOSITORY / "examples" / "first" / "bundle.yaml"
    code, out, err = _run(mosaic, "run", bundle, "--direct", "--json")
    assert code == 0, err
    first = json.loads(out)
    assert first.keys() >= {"run", "questions", "report", "seconds"}
    for question in first["questions"]:
        assert question.keys() >= KEYS
        assert (question["outcome"], question["answer"]) == ("complete", question["labels"]["expected"])
        assert question["engine"]["calibration_model"] is True
    assert Path(first["report"]).is_file()
    code, out, err = _run(mosaic, "run", bundle, "--direct")
    assert code == 0
    assert "3 answered from the ledger" in out
    assert "calibration model" in out
    code, out, err = _run(mosaic, "run", bundle, "--direct", "--again", "--json")
    again = json.loads(out)
    assert not any(question["from_ledger"] for question in again["questions"])
    for name in ("answer", "question_digest", "request_digest"):
        assert [q[name] for q in again["questions"]] == [q[name] for q in first["questions"]]
    assert len(receipts(mosaic.home)) == 9


def _told(question: dict[str, Any]) -> tuple[str, str]:
    return question["outcome"], question["rule"]


@pytest.mark.prefect
def test_demo(mosaic: Mosaic) -> None:
    """The demonstration ends with exit 1: the good are answered rightly, the order of two images swaps the answer,
    each bad one has its outcome and rule, and every receipt verifies; its policy holds nowhere else."""
    code, out, err = _run(mosaic, "demo", "--json")
    assert code == 1, err
    (line,) = out.splitlines()
    shown = json.loads(line)
    assert shown.keys() >= {"run", "questions", "report", "seconds"}
    assert shown["seconds"] < 60
    questions = {question["id"]: question for question in shown["questions"]}
    assert all(question.keys() >= KEYS for question in questions.values())
    good = {name: question for name, question in questions.items() if "expected" in question["labels"]}
    assert len(good) >= 11
    for question in good.values():
        assert (question["outcome"], question["answer"]) == ("complete", question["labels"]["expected"])
    assert questions["order"]["answer"] == " then ".join(reversed(questions["order-swapped"]["answer"].split(" then ")))
    assert questions["form"]["outcome"] == "complete"
    assert questions["form"]["structured"].keys() == {"colour"}
    assert {name: _told(questions[name]) for name in _BAD} == _BAD
    assert len(questions) == len(good) + 1 + len(_BAD) == len(receipts(mosaic.home))
    assert f"{len(questions)} of {len(questions)} receipts verified" in err
    verified = mosaic("receipts", "verify", "--all", "--json")
    assert (verified.code, len(verified.objects)) == (0, len(questions))
    (bundle,) = (mosaic.home / "demo").glob("bundle-*.yaml")
    outside = mosaic("run", bundle, "--direct")
    assert (outside.code, "unsafe" in outside.err) == (2, True)
    page = Path(shown["report"]).read_text("utf-8")
    assert "calibration model" in page
    assert "Content-Security-Policy" in page


def test_launcher(mosaic: Mosaic) -> None:
    """`./mosaic` from another folder runs the same command line and hands on its exit code and output."""
    if not (REPOSITORY / ".venv" / ".stamp").exists():
        pytest.skip("the launcher's own environment is not installed; ./mosaic settings installs it")
    environment = {name: value for name, value in mosaic.environment.items() if name != "PYTHONPATH"}
    for arguments, code in ((["settings", "--json"], 0), (["receipts", "verify", "--all"], 2)):
        run = subprocess.run(
            [REPOSITORY / "mosaic", *arguments], env=environment, cwd="/", capture_output=True, text=True, check=False
        )
        assert run.returncode == code, run.stderr
