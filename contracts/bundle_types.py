"""Type errors of a document, said so that who wrote it can mend it: the path, what was expected, the closest key.

msgspec stops at its first error and names a path; this goes through a document question by question, so that one
reading reports many mistakes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from contracts.bundle_document import (
    VERSION,
    AnswerDocument,
    HeadDocument,
    PartDocument,
    QuestionDocument,
    RetryDocument,
)
from contracts.bundle_reader import Path, shown
from contracts.bundle_rules import Finding
from contracts.parameters import ParametersDocument

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?$", flags=re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>[0-9]+)\]|\[\.\.\.\]")
_QUOTE_HINT = "; quote it if it is meant as text"


def type_findings(value: Any) -> Iterator[Finding]:
    """Why `value` is not a bundle: at least one finding if it is not, at most one per question and one for the rest,
    save unknown keys, which are all named."""
    if not isinstance(value, dict):
        yield (), "bundle-type", "expected a mapping with version, id and questions"
        return
    head = {key: inner for key, inner in value.items() if key != "questions"}
    yield from _findings(head, HeadDocument, ())
    questions = value.get("questions")
    if not isinstance(questions, list) or not questions:
        yield (
            ("questions",) if "questions" in value else (),
            "bundle-questions",
            "expected a list of at least one question",
        )
        return
    for index, question in enumerate(questions):
        yield from _findings(question, QuestionDocument, ("questions", index))


def _findings(value: Any, kind: type[msgspec.Struct], where: Path) -> Iterator[Finding]:
    unknown = list(_unknown_keys(value, kind, where))
    yield from unknown
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, path = _placed(str(error), value)
        if "unknown field" not in what or not unknown:
            yield (*where, *path), "bundle-type", _plain_words(what, path)


def _unknown_keys(value: Any, kind: type[msgspec.Struct], where: Path) -> Iterator[Finding]:
    if not isinstance(value, dict):
        return
    known = list(kind.__struct_fields__) + (["questions"] if kind is HeadDocument else [])
    for key in value:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(known))}"
            yield (*where, key), "bundle-unknown-key", f"unknown key {shown(key)}; {hint}"
    if kind in (HeadDocument, QuestionDocument):
        yield from _unknown_keys(value.get("parameters"), ParametersDocument, (*where, "parameters"))
        yield from _unknown_keys(value.get("retry"), RetryDocument, (*where, "retry"))
    if kind is QuestionDocument:
        parts = value.get("parts")
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            yield from _unknown_keys(part, PartDocument, (*where, "parts", index))
        yield from _unknown_keys(value.get("answer"), AnswerDocument, (*where, "answer"))


def _placed(message: str, value: Any) -> tuple[str, Path]:
    """msgspec's message without its path, and the path; `[...]` (some value of a mapping) is looked up in `value`."""
    match = _PLACE.match(message)
    if match is None or match["path"] is None:
        return message, ()
    path: list[str | int] = []
    for step in _STEP.finditer(match["path"]):
        if step["name"]:
            path.append(step["name"])
        elif step["index"]:
            path.append(int(step["index"]))
        else:
            path.extend(_culprit(value, path))
    return match["what"], tuple(path)


def _culprit(value: Any, path: list[str | int]) -> list[str]:
    """The first key under `path` whose value has the wrong type: labels hold text, limits hold numbers."""
    for step in path:
        value = value[step]
    wants_text = path[-1] == "labels"
    wrong = (key for key, inner in value.items() if isinstance(inner, str) is not wants_text or inner is None)
    return list(wrong)[:1]


def _plain_words(what: str, path: Path) -> str:
    """msgspec's sentence with a colon and the name of what it is about, and a hint where quoting is the cure."""
    if path == ("version",):
        return f"version: expected {VERSION}, {what[:1].lower()}{what[1:]}"
    subject = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
    hint = _QUOTE_HINT if re.fullmatch(r"Expected `str`, got `(int|float|bool)`", what) else ""
    return f"{subject}{what[:1].lower()}{what[1:]}{hint}".replace("`", "")
