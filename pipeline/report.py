"""The report of a run: one self-contained HTML file for a reviewer, beside the receipts that prove it.

Everything in it came from evidence, a server or a model, so everything is escaped, nothing is loaded and a content
security policy says so to the browser.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts.errors import StorageError
from contracts.printable import printable
from contracts.result import QuestionResult

_FOLDER = Path(__file__).parent


def write_report(
    folder: Path, run: str, results: Iterable[QuestionResult], *, title: str, asked: Mapping[str, str]
) -> Path:
    """Write the report of `run` into `folder` and return its path; `asked` has the text of each question by its id.

    Raises StorageError where the disk fails.
    """
    listed = list(results)
    page = _environment().get_template("report.html.j2")
    counts = Counter(result.outcome.value for result in listed)
    text = page.render(
        run=run,
        title=title,
        counts=sorted(counts.items()),
        questions=[_row(result, asked.get(result.id, "")) for result in listed],
        engines=sorted({(each.engine.release, each.engine.identity, each.engine.calibration_model) for each in listed}),
    )
    path = folder / f"{run}.html"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(".partial")
        partial.write_text(text, "utf-8")
        os.replace(partial, path)  # noqa: PTH105  # atomic: a reader sees the old report or the new one
    except OSError as error:
        raise StorageError("report-write", f"cannot write {path}: {error.strerror}") from error
    return path


def _row(result: QuestionResult, asked: str) -> dict[str, Any]:
    document = result.to_json()
    document["asked"] = asked
    for part in document["parts"]:
        part["source"] = _source(part["locator"] or {})
    document["tokens"] = (result.usage or {}).get("total_tokens")
    return document


def _source(locator: Mapping[str, Any]) -> str:
    """Where a part came from, in words: a URL, a path, an object, bytes of the store, or what it was made from."""
    if "parent" in locator:
        return f"made from {locator['parent']}"
    if locator.get("kind") == "s3":
        return f"s3://{locator['bucket']}/{locator['key']}"
    if locator.get("kind") == "blob":
        return f"the store's {locator['digest']}"
    return str(locator.get("url") or locator.get("path") or "")


def _environment() -> Environment:
    return Environment(
        finalize=lambda value: printable(value) if type(value) is str else value,
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
