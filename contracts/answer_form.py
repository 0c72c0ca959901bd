"""Answer forms: which JSON Schemas (draft 2020-12) can be asked for, and the one shape in which they are evaluated.

A form is checked here once, for bundles, for a run and for verification alike, so that what passes one passes all. What
is accepted costs a bounded amount of work over any answer: references lead to schemas of the form itself and never in a
circle, patterns have a bound (contracts.pattern_cost), and what a form expands to is counted. It is then evaluated with
its references written out, its keys in canonical order, and nothing in it that has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import jsonschema

from contracts.digest import canonical_json
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.pattern_cost import pattern_cost

Path = tuple[str | int, ...]
Finding = tuple[Path, str, str]

MAX_DEPTH = 64
"""Nesting of an answer or a schema; people write six levels, parsers recurse."""

MAX_SUBSCHEMAS = 10_000
"""Subschemas of a form with its references written out: n definitions that each name the next twice are 2^n."""

PATTERN_STEPS = 1 << 20
"""Steps of a pattern over a string of `maxLength` characters, or of 256 where the form does not bound it."""

_PATTERN_CHARACTERS = 256
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("dependentSchemas", "patternProperties", "properties")
_DEFINITIONS = ("$defs", "definitions")
_PLAIN = frozenset(
    {"const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems",
     "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
     "multipleOf", "pattern", "required", "type", "uniqueItems"}
)  # fmt: skip
_NOT_READ = {
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"),
                    ("schema-reference", "only $ref of the form # or #/... is read")),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"),
                    ("schema-cost", "it evaluates its neighbours again, level by level; use additionalProperties")),
    "x-guidance": ("schema-form", "an option of the engine's grammar, which is the request's to set"),
    "dependencies": ("schema-form", "no keyword of draft 2020-12; use dependentRequired or dependentSchemas"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """A form that was checked. `schema` has its references written out and only keywords that have an effect."""

    schema: Any


def form_findings(schema: dict[str, Any], limits: Limits) -> Iterator[Finding]:
    """Why `schema` is no answer form: path, rule and reason, the first of each kind of fault; nothing if it is one.

    Rules: `schema-depth`, `schema-number`, `schema-bytes`, `schema-reference`, `schema-pattern`, `schema-cost`,
    `schema-form`.
    """
    if (found := _tree_finding(schema)) is not None:
        yield found
        return
    canonical = canonical_json(schema)
    if len(canonical) > limits.schema_bytes:
        yield (), "schema-bytes", f"expected at most {limits.schema_bytes} bytes of JSON Schema, got {len(canonical)}"
        return
    finding, _ = _read(canonical)
    if finding is not None:
        yield finding


def check_schema(schema: dict[str, Any], limits: Limits) -> None:
    """Raise InputError for an answer form that cannot be checked, by the rules of `form_findings`."""
    for path, rule, reason in form_findings(schema, limits):
        raise InputError(rule, f"{shown_path(path)}: {reason}")


def answer_form(schema: dict[str, Any]) -> AnswerForm:
    """The form to evaluate. Raises InputError for what `check_schema` refuses, save for its size."""
    found = _tree_finding(schema)
    form = None
    if found is None:
        found, form = _read(canonical_json(schema))
    if form is None:
        path, rule, reason = found or ((), "schema-form", "no form")
        raise InputError(rule, f"{shown_path(path)}: {reason}")
    return form


def shown_path(path: Path) -> str:
    """Where something is in a form, as a message may show it."""
    return ("/".join(("#", *(str(step) for step in path))))[:80]


def _tree_finding(schema: Any) -> Finding | None:
    """What makes a form impossible to write as an identity, found level by level."""
    level: list[tuple[Path, Any]] = [((), schema)]
    for _ in range(MAX_DEPTH):
        following: list[tuple[Path, Any]] = []
        for path, node in level:
            if isinstance(node, dict):
                following.extend(((*path, str(key)), inner) for key, inner in node.items())
            elif isinstance(node, list):
                following.extend(((*path, index), inner) for index, inner in enumerate(node))
            try:
                canonical_json(list(node) if isinstance(node, dict) else None if isinstance(node, list) else node)
            except InputError as error:
                return path, "schema-number" if isinstance(node, int | float) else "schema-form", error.reason
        level = following
    return (level[0][0], "schema-depth", f"expected at most {MAX_DEPTH} levels, got more") if level else None


@lru_cache(maxsize=64)
def _read(canonical: bytes) -> tuple[Finding | None, AnswerForm | None]:
    """The form of a canonical schema, or what is wrong. Remembered: a bundle asks most questions in one form."""
    schema = json.loads(canonical)
    places: dict[str, Any] = {}
    for path, subschema in _subschemas(schema, ()):
        places[_pointer(path)] = subschema
        if (found := _keyword_finding(subschema, path)) is not None:
            return found, None
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        where = tuple(error.absolute_path)
        return (where, "schema-form", f"not a JSON Schema (draft 2020-12), rule {error.validator}"), None
    try:
        return None, AnswerForm(_Expansion(places).expanded("#", ()).schema)
    except _Unexpandable as error:
        return (error.path, error.rule, error.reason), None


def _subschemas(schema: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every place of a form that is a schema, itself first."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in _ONE or key == "contentSchema":  # which has no effect, but is a schema
            yield from _subschemas(value, (*path, key))
        elif key in _LISTED and isinstance(value, list):
            for index, inner in enumerate(value):
                yield from _subschemas(inner, (*path, key, index))
        elif key in (*_NAMED, *_DEFINITIONS) and isinstance(value, dict):
            for name, inner in value.items():
                yield from _subschemas(inner, (*path, key, name))


def _keyword_finding(schema: Any, path: Path) -> Finding | None:
    """What is refused of one subschema before the metaschema, which is itself a program, sees it."""
    if not isinstance(schema, dict):
        return None
    for key, (rule, reason) in _NOT_READ.items():
        if key in schema:
            return (*path, key), rule, reason
    if (path and "$schema" in schema) or schema.get("$schema", _DRAFT) != _DRAFT:
        return (*path, "$schema"), "schema-form", f"only {_DRAFT} is read, and only at the top"
    if path and "$id" in schema:
        return (*path, "$id"), "schema-reference", "a schema within the schema with a name of its own is not read"
    target = schema.get("$ref", "#")
    if not isinstance(target, str) or (target != "#" and not target.startswith("#/")):
        return (
            (*path, "$ref"),
            "schema-reference",
            "only references of the form # or #/... are read; nothing is fetched",
        )
    for key in ("required", "type", "dependentRequired"):
        if not _holds_names(schema.get(key)):
            return (*path, key), "schema-form", "expected text"
    return _pattern_finding(schema, path)


def _holds_names(value: Any) -> bool:
    """Whether lists in `value` hold text only: the metaschema compares each with each where they do not sort."""
    values = value.values() if isinstance(value, dict) else [value]
    return all(isinstance(inner, str) for each in values if isinstance(each, list) for inner in each)


def _pattern_finding(schema: dict[str, Any], path: Path) -> Finding | None:
    named = schema.get("patternProperties")
    patterns = [((*path, "patternProperties", each), each) for each in (named if isinstance(named, dict) else ())]
    if isinstance(pattern := schema.get("pattern"), str):
        patterns.append(((*path, "pattern"), pattern))
    longest = schema.get("maxLength")
    for where, each in patterns:
        bounded = isinstance(longest, int) and where[-1] == "pattern"
        characters = longest if bounded and isinstance(longest, int) else _PATTERN_CHARACTERS
        try:
            steps = pattern_cost(each).steps(max(characters, 0))
        except InputError as error:
            return where, error.rule, error.reason
        if steps > PATTERN_STEPS:
            reason = f"expected at most {PATTERN_STEPS} steps over {characters} characters, got {steps}"
            return where, "schema-pattern", f"{reason}; anchor it with ^, or bound the text with maxLength"
    return None


class _Unexpandable(Exception):
    """A reference that cannot be written out."""

    def __init__(self, path: Path, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.rule, self.reason = path, rule, reason


@dataclass(frozen=True, slots=True)
class _Expanded:
    """A subschema with its references written out, how many subschemas that is, and how deep."""

    schema: Any
    count: int
    depth: int


class _Expansion:
    """Writes references out. A schema named twice is one object named twice, and counted twice."""

    def __init__(self, places: dict[str, Any]) -> None:
        self._places = places
        self._done: dict[str, _Expanded | None] = {}

    def expanded(self, pointer: str, path: Path) -> _Expanded:
        """The subschema at `pointer`, named at `path`."""
        if pointer not in self._places:
            raise _Unexpandable(path, "schema-reference", "the reference leads to no schema of this form")
        if pointer not in self._done:
            self._done[pointer] = None
            self._done[pointer] = self._written_out(self._places[pointer], pointer, path)
        found = self._done[pointer]
        if found is None:
            raise _Unexpandable(path, "schema-reference", "the reference leads back to where it stands")
        return found

    def _written_out(self, schema: Any, pointer: str, path: Path) -> _Expanded:
        if not isinstance(schema, dict):
            return _Expanded(schema, 1, 1)
        written = {key: value for key, value in schema.items() if key in _PLAIN}
        inner: list[_Expanded] = []

        def within(*steps: str | int) -> Any:
            inner.append(self.expanded("/".join((pointer, *map(_escaped, steps))), (*path, *steps)))
            return inner[-1].schema

        for key, value in schema.items():
            if key in _ONE:
                written[key] = within(key)
            elif key in _LISTED:
                written[key] = [within(key, index) for index in range(len(value))]
            elif key in _NAMED:
                written[key] = {name: within(key, name) for name in value}
        if "$ref" in schema:
            inner.append(self.expanded(_normal(schema["$ref"]), (*path, "$ref")))
            written["allOf"] = [*written.get("allOf", ()), inner[-1].schema]
        count, depth = 1 + sum(each.count for each in inner), 1 + max((each.depth for each in inner), default=0)
        if count > MAX_SUBSCHEMAS or depth > MAX_DEPTH:
            told = f"{MAX_SUBSCHEMAS} subschemas and {MAX_DEPTH} levels"
            raise _Unexpandable(path, "schema-cost", f"expected at most {told} with references written out, got more")
        return _Expanded(written, count, depth)


def _pointer(path: Path) -> str:
    return "/".join(("#", *map(_escaped, path)))


def _escaped(step: str | int) -> str:
    """A step of a JSON Pointer (RFC 6901 section 3)."""
    return str(step).replace("~", "~0").replace("/", "~1")


def _normal(reference: str) -> str:
    """A reference as `_pointer` writes it: percent-decoded (RFC 6901 section 6)."""
    return unquote(reference)
