"""`mosaic receipts` and `results`: what was kept, shown and verified from the store alone."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.command import Mosaic
from tests.pipeline.desk import ask, write_bundle

pytestmark = pytest.mark.engine

QUESTION_KEYS = {
    "id", "outcome", "rule", "reason", "answer", "structured", "finish_reason", "usage", "parts", "attempt",
    "question_digest", "request_digest", "stream_digest", "receipt", "seconds", "labels", "engine",
}  # fmt: skip


def _blobs(home: Path) -> list[Path]:
    return sorted(path for path in (home / "blobs").rglob("*") if path.is_file())


def _overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def test_list_and_show(analysed: Mosaic) -> None:
    """Every receipt is listed, latest first; shown, its bytes hash to its id, also by a beginning of it."""
    listed = analysed("receipts", "list", "--json").objects
    assert {row["question"]: row["outcome"] for row in listed} == {"good": "complete", "bad": "source_failed"}
    for row in listed:
        assert row.keys() >= {"receipt", "run", "question", "outcome", "created_at"}
        for reference in (row["receipt"], row["receipt"].removeprefix("sha256:")[:12]):
            shown = analysed("receipts", "show", reference)
            assert "sha256:" + hashlib.sha256(shown.out.encode()).hexdigest() == row["receipt"]
            assert json.loads(shown.out)["question_id"] == row["question"]
    assert len(analysed("receipts", "list", "--limit", "1", "--json").objects) == 1
    assert len(analysed("receipts", "list", "--run", listed[0]["run"][:20], "--json").objects) == 2


def test_valid(analysed: Mosaic) -> None:
    """Receipts that hold are valid one by one and all together: exit 0, one object each, none with findings."""
    ended = analysed("receipts", "verify", "--all", "--json")
    assert ended.code == 0
    assert [(row["verdict"], row["findings"]) for row in ended.objects] == [("valid", [])] * 2
    assert "2 valid" in ended.err
    one = analysed("receipts", "verify", ended.objects[0]["receipt"], "--json")
    assert (one.code, one.object) == (0, ended.objects[0])
    assert "2 valid" in analysed("receipts", "verify", "--all").out


def test_flipped(analysed: Mosaic) -> None:
    """After one bit of any blob is flipped verification fails and names that blob; put back, it holds again."""
    blobs = _blobs(analysed.home)
    assert len(blobs) == 3  # the picture, the request, the answer's stream
    for path in blobs:
        data = path.read_bytes()
        _overwrite(path, data[:-1] + bytes([data[-1] ^ 1]))
        ended = analysed("receipts", "verify", "--all", "--json")
        assert ended.code == 1
        (invalid,) = (row for row in ended.objects if row["verdict"] == "invalid")
        assert f"sha256:{path.name}" in {finding["digest"] for finding in invalid["findings"]}
        _overwrite(path, data)
    assert analysed("receipts", "verify", "--all").code == 0


_GUILTY = "SET result = json_set(result, '$.answer', 'GUILTY')"
_CHANGES = {
    "the shown result": (f"UPDATE question {_GUILTY} WHERE question_id = 'good'", "row-result"),
    "the attempt's result": (f"UPDATE attempt {_GUILTY} WHERE question_id = 'good'", "row-result"),
    "the outcome's column": ("UPDATE receipt SET outcome = 'refused' WHERE question_id = 'good'", "row-column"),
    "a receipt that is gone": ("DELETE FROM receipt WHERE question_id = 'good'", "receipt-missing"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_changed_row(analysed: Mosaic, change: str) -> None:
    """A row that says otherwise than its receipt, or whose receipt is gone, is found and said."""
    statement, rule = _CHANGES[change]
    with closing(sqlite3.connect(analysed.home / "ledger" / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("PRAGMA foreign_keys=OFF")
        assert ledger.execute(statement).rowcount > 0
    verified = analysed("receipts", "verify", "--all", "--json")
    assert verified.code == 1
    assert [each["rule"] for row in verified.objects for each in row["findings"]] == [rule]


def test_forged_answer_is_not_reused(analysed: Mosaic, tmp_path: Path) -> None:
    """A row is never believed: where the text is not the one that the receipt names, the engine is asked again."""
    bundle = write_bundle(tmp_path / "in", ask("good", {"image": "circle.png"}))
    honest = analysed("run", bundle, "--direct", "--json").object["questions"][0]
    with closing(sqlite3.connect(analysed.home / "ledger" / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(f"UPDATE attempt {_GUILTY}")
    asked = analysed("run", bundle, "--direct", "--json").object["questions"][0]
    assert (honest["from_ledger"], asked["from_ledger"]) == (True, False)
    assert asked["answer"] == honest["answer"] != "GUILTY"


def test_deleted(analysed: Mosaic) -> None:
    """A blob that is gone makes the receipt unverifiable, not invalid: exit 1, and the blob is named."""
    path = _blobs(analysed.home)[0]
    path.unlink()
    ended = analysed("receipts", "verify", "--all", "--json")
    assert ended.code == 1
    assert sorted(row["verdict"] for row in ended.objects) == ["unverifiable", "valid"]
    assert path.name in ended.out
    assert path.name in analysed("receipts", "verify", "--all").out


@pytest.mark.parametrize(
    "arguments", [("verify", "--all"), ("verify", "0" * 64), ("verify",), ("show", "ab"), ("list", "--run", "none")]
)
def test_nothing_to_do(mosaic: Mosaic, arguments: tuple[str, ...]) -> None:
    """On an empty home, or without a receipt to name, there is nothing to do: exit 2, one line of reason."""
    ended = mosaic("receipts", *arguments, "--json") if arguments[0] != "show" else mosaic("receipts", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("mosaic: ")
    assert "Traceback" not in ended.err


def test_results(analysed: Mosaic) -> None:
    """A run's questions are printed in the bundle's order in every format, with the keys of the contract."""
    run = analysed("receipts", "list", "--json").objects[0]["run"]
    rows = analysed("results", run, "--json").objects
    assert [row["id"] for row in rows] == ["good", "bad"]
    assert all(row.keys() >= QUESTION_KEYS for row in rows)
    assert rows == analysed("results", run, "--format", "jsonl").objects
    assert rows == json.loads(analysed("results", run[:20], "--format", "json").out)
    cells = list(csv.DictReader(io.StringIO(analysed("results", run, "--format", "csv").out)))
    assert [(row["id"], row["outcome"]) for row in cells] == [("good", "complete"), ("bad", "source_failed")]
    table = analysed("results", run)
    assert table.code == 0
    assert "good" in table.out
    assert analysed("results", "run-0").code == 2


def test_control_characters(analysed: Mosaic) -> None:
    """Terminal controls that evidence brought are printed raw nowhere; JSON still carries them, escaped."""
    run = analysed("receipts", "list", "--json").objects[0]["run"]
    printed = [analysed("results", run, *more).out for more in ((), ("--json",), ("--format", "json"))]
    for text in printed:
        assert not [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    assert json.loads(printed[2])[0]["labels"]["expected"].startswith("\x1b[2J\x9b31m")
