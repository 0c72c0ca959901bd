"""What a bundle must satisfy beyond its types: one kind per part, locations, answer forms, unique ids, bounds.

Each rule yields findings: a path, the rule's name, and what was expected and what came. A message never repeats a
prompt, and of a URL it shows neither query nor userinfo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import UNSET, UnsetType

from contracts.answer_form import form_findings
from contracts.artifact import Modality
from contracts.bundle_document import AnswerDocument, DefaultsDocument, PartDocument, QuestionDocument
from contracts.bundle_location import location_reason, source_of
from contracts.bundle_reader import Path, shown
from contracts.limits import Limits
from contracts.locator import BlobSource
from contracts.request_bounds import counted

Finding = tuple[Path, str, str]

KINDS = (*(modality.value for modality in Modality), "text")
_PROVENANCE = ("sha256", "caption", "collected_at", "collector")
_LEAP_SECOND = re.compile(r":60(?=[.Zz+-])")


def part_kind(part: PartDocument) -> tuple[str, str] | None:
    """The one kind of a part and its value, or None where it has none or several."""
    present = [(kind, value) for kind in KINDS if (value := getattr(part, kind)) is not UNSET]
    return present[0] if len(present) == 1 else None


def question_findings(question: QuestionDocument, where: Path, limits: Limits) -> Iterator[Finding]:
    """Everything wrong with one question that its types do not say."""
    if len(question.parts) > limits.question_parts:
        reason = f"expected at most {limits.question_parts} parts, got {len(question.parts)}"
        yield (*where, "parts"), "bundle-parts", reason
    for modality in Modality:
        name, got = counted(modality), sum(getattr(part, modality.value) is not UNSET for part in question.parts)
        if got > getattr(limits, name):
            reason = f"expected at most {getattr(limits, name)} {modality.value} parts, got {got}"
            yield (*where, "parts"), "bundle-parts", reason
    for index, part in enumerate(question.parts):
        yield from _part_findings(part, (*where, "parts", index))
    texts = [part.text for part in question.parts if not isinstance(part.text, UnsetType)]
    if not texts:
        yield (*where, "parts"), "bundle-prompt", "a question needs a text part that asks something"
    size = sum(len(text.encode()) for text in texts)
    if size > limits.prompt_bytes:
        yield (*where, "parts"), "bundle-prompt", f"expected at most {limits.prompt_bytes} bytes of text, got {size}"
    yield from defaults_findings(question, where, limits)
    yield from _label_findings(question.labels, (*where, "labels"), limits)
    if isinstance(question.answer, AnswerDocument):
        for path, rule, reason in form_findings(question.answer.json_schema, limits):
            yield (*where, "answer", "json_schema", *path), "bundle-schema", f"{rule}: {reason}"


def defaults_findings(asked: DefaultsDocument, where: Path, limits: Limits) -> Iterator[Finding]:
    """Whether the token budget and the number of tries are within their limits."""
    tokens, retry = asked.max_output_tokens, asked.retry
    if not isinstance(tokens, UnsetType) and tokens > limits.output_tokens:
        yield (*where, "max_output_tokens"), "bundle-tokens", f"expected at most {limits.output_tokens}, got {tokens}"
    if not isinstance(retry, UnsetType) and retry.attempts > limits.question_attempts:
        reason = f"expected at most {limits.question_attempts}, got {retry.attempts}"
        yield (*where, "retry", "attempts"), "bundle-attempts", reason


def _part_findings(part: PartDocument, where: Path) -> Iterator[Finding]:
    kind = part_kind(part)
    if kind is None:
        yield where, "bundle-part-kind", f"a part has exactly one of {', '.join(KINDS)}"
        return
    name, value = kind
    if name == "text":
        for key in _PROVENANCE:
            if getattr(part, key) is not UNSET:
                yield (*where, key), "bundle-part-kind", f"{key} belongs to a medium, this part is text"
        if not value.strip():
            yield (*where, "text"), "bundle-prompt", "expected text, got only white space"
    elif reason := location_reason(value):
        yield (*where, name), "bundle-location", reason
    elif isinstance(named := source_of(value), BlobSource) and part.sha256 not in (UNSET, named.digest.hex):
        yield (*where, "sha256"), "bundle-digest", f"{name} names the bytes {named.digest}, sha256 names others"
    if not isinstance(part.collected_at, UnsetType) and not _is_date(part.collected_at):
        yield (*where, "collected_at"), "bundle-date", f"{shown(part.collected_at)} is not a date and time that exists"


def _is_date(text: str) -> bool:
    """Whether an RFC 3339 timestamp names a moment; a leap second is one, though datetime has no room for it."""
    try:
        datetime.fromisoformat(_LEAP_SECOND.sub(":59", text).upper())
    except ValueError:
        return False
    return True


def _label_findings(labels: dict[str, str], where: Path, limits: Limits) -> Iterator[Finding]:
    if len(labels) > limits.labels:
        yield where, "bundle-labels", f"expected at most {limits.labels} labels, got {len(labels)}"
    for key, value in labels.items():
        size = len(key.encode()) + len(value.encode())
        if size > limits.label_bytes or not key:
            reason = f"expected a name and at most {limits.label_bytes} bytes with it, got {size}"
            yield (*where, key), "bundle-labels", reason
