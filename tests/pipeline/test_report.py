"""The report: whatever evidence, a server or a model wrote, a browser shows it and runs none of it."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from contracts.errors import StorageError
from contracts.outcome import Outcome
from contracts.result import QuestionResult, ResultEngine, ResultPart
from pipeline.report import write_report

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}</td></table>"
_TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "p", "code", "b", "i", "span", "table", "thead", "tbody",
    "tr", "main", "th", "td", "br", "details", "summary", "dl", "dt", "dd",
}  # fmt: skip


class _Page(HTMLParser):
    """Tags, attributes and the shown text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        named = dict(attrs)
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"] or ""

    def handle_data(self, data: str) -> None:
        self.text += data


def _result(outcome: Outcome, text: str) -> QuestionResult:
    return QuestionResult(
        id=text,
        outcome=outcome,
        rule=text,
        reason=text,
        answer=text if outcome.is_answer else None,
        structured=None,
        partial=None if outcome.is_answer else text,
        finish_reason="stop",
        usage={"total_tokens": 7},
        parts=(ResultPart("image", "sha256:" + "a" * 64, {"type": "url", "url": text}),),
        attempt="attempt-1",
        question_digest=None,
        request_digest=None,
        stream_digest=None,
        receipt="sha256:" + "b" * 64,
        seconds=1.5,
        labels={"expected": text},
        engine=ResultEngine(text, "sha256:" + "c" * 64, calibration_model=True),
    )


def test_hostile_text_is_shown(tmp_path: Path) -> None:
    """Markup in ids, rules, reasons, answers, partial texts, labels, locators and titles is text on the page."""
    results = [_result(Outcome.COMPLETE, HOSTILE), _result(Outcome.INCOMPLETE, HOSTILE)]
    path = write_report(tmp_path / "reports", "run-1", results, title=HOSTILE, asked={HOSTILE: HOSTILE})
    page = _Page(path.read_text("utf-8"))
    assert page.tags <= _TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    assert page.text.count(HOSTILE) >= 8
    assert "{{ 7*7 }}" in page.text


def test_nothing_is_loaded(tmp_path: Path) -> None:
    """The page's own security policy allows no script and nothing from anywhere."""
    page = _Page(
        write_report(tmp_path, "run-1", [_result(Outcome.COMPLETE, "red")], title="t", asked={}).read_text("utf-8")
    )
    directives = dict(each.strip().split(" ", 1) for each in page.policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert set(directives) <= {"default-src", "style-src"}


def test_calibration_model_is_named(tmp_path: Path) -> None:
    """Answers of the calibration model are shown with its name and that it is not for evidence; others are not."""
    result = _result(Outcome.COMPLETE, "red")
    real = replace(result, engine=ResultEngine("real-1", "sha256:" + "d" * 64, calibration_model=False))
    pages = [write_report(tmp_path, "run-1", [each], title="t", asked={}).read_text("utf-8") for each in (result, real)]
    assert ["not for evidence" in page for page in pages] == [True, False]


def test_written_again(tmp_path: Path) -> None:
    """A second report of the same run takes the first one's place, and nothing else is left in the folder."""
    write_report(tmp_path, "run-1", [], title="first", asked={})
    path = write_report(tmp_path, "run-1", [], title="second", asked={})
    assert "second" in path.read_text("utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_disk_that_fails(tmp_path: Path) -> None:
    """A folder that cannot be made is a storage error that names the file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="run-1"):
        write_report(tmp_path / "file", "run-1", [], title="t", asked={})
