"""Structured answers: the text of a whole stream against the question's JSON Schema (draft 2020-12).

Everything is bounded before the validator sees it, and no reference is ever fetched: one that leads out of the schema
itself makes the answer form unusable, which is refused before anything is asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import jsonschema
import referencing
import referencing.exceptions

from contracts.digest import wire_json
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.outcome import Outcome

MAX_DEPTH = 64
"""Nesting of an answer or a schema; people write six levels, parsers recurse."""

MAX_PATTERN_CHARACTERS = 256
"""A pattern is run by a backtracking engine over model text; long ones are programs."""

_VALIDATOR = jsonschema.Draft202012Validator


class Judged(Protocol):
    """What can be checked: a frozen dataclass with an outcome, its rule and reason, and the text of a whole stream."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def outcome(self) -> Outcome: ...

    @property
    def text(self) -> str | None: ...


J = TypeVar("J", bound=Judged)


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[J]):
    """A completion and, if it is complete, the JSON value of its text."""

    completion: J
    structured: Any = None


def check_schema(schema: dict[str, Any], limits: Limits) -> None:
    """Raise InputError for an answer form that cannot be checked.

    Rules: `schema-bytes`, `schema-depth`, `schema-reference` (not of the form `#...`), `schema-pattern`,
    `schema-form`.
    """
    _check_tree(schema)
    size = len(wire_json(schema))
    if size > limits.schema_bytes:
        raise InputError("schema-bytes", f"expected at most {limits.schema_bytes} bytes, got {size}")
    try:
        _VALIDATOR.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InputError("schema-form", f"not a JSON Schema at {error.json_path}: {error.validator}") from None


def _check_tree(schema: Any) -> None:
    level = [schema]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        following: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                _check_keywords(node)
                following.extend(node.values())
            elif isinstance(node, list):
                following.extend(node)
        level = following
    if level:
        raise InputError("schema-depth", f"expected at most {MAX_DEPTH} levels, got more")


def _check_keywords(node: dict[str, Any]) -> None:
    for keyword in ("$ref", "$dynamicRef"):
        target = node.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise InputError("schema-reference", f"{keyword} leads out of the schema; only #... is allowed")
    pattern = node.get("pattern")
    if isinstance(pattern, str) and len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InputError("schema-pattern", f"expected at most {MAX_PATTERN_CHARACTERS} characters, got {len(pattern)}")


def check_answer(completion: J, schema: dict[str, Any], limits: Limits) -> CheckedAnswer[J]:
    """A completion whose text was asked for as JSON: as it is, or with outcome `answer_invalid` and its text kept.

    Only a `complete` one is looked at: a text that its budget ended is not judged.
    """
    if completion.outcome is not Outcome.COMPLETE or completion.text is None:
        return CheckedAnswer(completion)
    text = completion.text
    size = len(text.encode())
    if size > limits.answer_bytes:
        return _invalid(completion, "answer-bytes", f"expected at most {limits.answer_bytes} bytes, got {size}")
    if _depth(text) > MAX_DEPTH:
        return _invalid(completion, "answer-depth", f"expected at most {MAX_DEPTH} levels, got more")
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _invalid(completion, "answer-json", f"{size} bytes that are not one JSON value with unique keys")
    return _against_schema(completion, value, schema)


def _against_schema(completion: J, value: Any, schema: dict[str, Any]) -> CheckedAnswer[J]:
    validator = _VALIDATOR(schema, registry=referencing.Registry())
    try:
        error = next(validator.iter_errors(value), None)
    except (referencing.exceptions.Unresolvable, RecursionError):
        return _invalid(completion, "answer-schema", "the schema refers to something that is not in it")
    if error is not None:
        return _invalid(completion, "answer-schema", f"{error.json_path[:80]} does not satisfy {error.validator!r}")
    return CheckedAnswer(completion, value)


def _invalid(completion: J, rule: str, reason: str) -> CheckedAnswer[J]:
    return CheckedAnswer(replace(completion, outcome=Outcome.ANSWER_INVALID, rule=rule, reason=reason))


def _depth(text: str) -> int:
    """How deep brackets nest outside strings: known before any parser recurses into them."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            else:
                in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
