"""Answer forms: what is accepted is evaluated as JSON Schema says, with a bound on the work."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.answer_form import MAX_DEPTH, answer_form, check_schema, form_findings
from contracts.digest import canonical_json
from contracts.errors import InputError
from contracts.form_validator import MAX_WORK, OverBudget, first_fault
from contracts.limits import Limits


def nested(levels: int, keyword: str = "not") -> dict[str, Any]:
    """A schema of so many levels."""
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {keyword: schema}
    return schema


def doubling(times: int) -> dict[str, Any]:
    """A definition that names the next twice, so many times: 2^n subschemas in n lines."""
    twice = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(times)}
    return {"$ref": "#/$defs/0", "$defs": {**twice, str(times): {"type": "string"}}}


def chain(length: int) -> dict[str, Any]:
    """Definitions that each name the next."""
    return {
        "$ref": "#/$defs/0",
        "$defs": {**{str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(length)}, str(length): {}},
    }


DRAFT = "https://json-schema.org/draft/2020-12/schema"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a schema from elsewhere": ("schema-reference", {"items": {"$ref": "https://example.org/s.json"}}),
    "an anchor": ("schema-reference", {"$ref": "#there", "$defs": {"a": {"$anchor": "there"}}}),
    "an anchor of its own": ("schema-reference", {"$defs": {"a": {"$anchor": "there"}}}),
    "a dynamic reference": ("schema-reference", {"$dynamicRef": "#"}),
    "a schema of its own within": ("schema-reference", {"items": {"$id": "urn:a", "$ref": "#"}}),
    "a reference to nothing": ("schema-reference", {"items": {"$ref": "#/$defs/missing"}}),
    "a reference to what is no schema": ("schema-reference", {"$ref": "#/const", "const": {"type": "string"}}),
    "a reference to itself": ("schema-reference", {"$ref": "#"}),
    "a tree": ("schema-reference", {"properties": {"children": {"items": {"$ref": "#"}}}}),
    "two that name each other": ("schema-reference", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                                                      "$ref": "#/$defs/a"}),
    "an option of the engine's": ("schema-form", {"x-guidance": {"whitespace_flexible": True}}),
    "a reference that is a number": ("schema-reference", {"$ref": 3}),
    "2^14 subschemas": ("schema-cost", doubling(14)),
    "2^60 subschemas": ("schema-cost", doubling(60)),
    "a long chain": ("schema-cost", chain(MAX_DEPTH)),
    "an evaluation of its neighbours": ("schema-cost", {"unevaluatedProperties": False}),
    "deep nesting": ("schema-depth", nested(MAX_DEPTH + 1)),
    "very deep nesting": ("schema-depth", nested(50_000)),
    "many bytes": ("schema-bytes", {"description": "x" * 70_000}),
    "a number that readers round": ("schema-number", {"properties": {"n": {"maximum": 1e16}}}),
    "an integer that readers round": ("schema-number", {"enum": [2**53]}),
    "an infinity": ("schema-number", {"const": float("inf")}),
    "half of a surrogate pair": ("schema-form", {"const": "\ud800"}),
    "half of a pair as a key": ("schema-form", {"properties": {"\ud800": {}}}),
    "a type that is none": ("schema-form", {"type": "objekt"}),
    "another draft": ("schema-form", {"$schema": "http://json-schema.org/draft-07/schema#"}),
    "another draft within": ("schema-form", {"items": {"$schema": DRAFT}}),
    "a keyword of another draft": ("schema-form", {"dependencies": {"a": ["b"]}}),
    "a list of items": ("schema-form", {"items": [{}]}),
    "thousands of objects as names": ("schema-form", {"required": [{"a": n} for n in range(5_000)]}),
    "thousands of objects as names of a content": (
        "schema-form", {"contentSchema": {"required": [{"a": n} for n in range(5_000)]}}
    ),
    "thousands of objects as types": ("schema-form", {"type": [{"a": n} for n in range(5_000)]}),
    "objects as dependent names": ("schema-form", {"dependentRequired": {"a": [{"a": n} for n in range(5_000)]}}),
    "a pattern without bound": ("schema-pattern", {"items": {"pattern": "^(a+)+$"}}),
    "such a pattern of names": ("schema-pattern", {"patternProperties": {"(a|a)*": {}}}),
    "such a pattern behind names": ("schema-pattern", {"propertyNames": {"pattern": "(a*)*"}}),
    "such a pattern where only a reference leads": (
        "schema-pattern", {"$ref": "#/$defs/a", "$defs": {"a": {"pattern": "(a*)*"}}}
    ),
    "a pattern too costly for its text": ("schema-pattern", {"pattern": ".*a.*b.*", "maxLength": 5_000}),
    "a long pattern": ("schema-pattern", {"pattern": "a" * 257}),
    "a pattern that is none": ("schema-pattern", {"pattern": "("}),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "schema"), REFUSED.values(), ids=REFUSED)
def test_a_form_that_cannot_be_checked_is_refused_by_name(rule: str, schema: dict[str, Any]) -> None:
    """Before anything is asked, and before a program in it runs."""
    with pytest.raises(InputError) as refused:
        check_schema(schema, Limits())
    assert refused.value.rule == rule
    with pytest.raises(InputError):
        answer_form(schema if rule != "schema-bytes" else {"type": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DRAFT, "$id": "urn:a", "title": "T", "properties": {"pattern": {"format": "date"}, "$ref": {}}},
        {"properties": {"a": {"$ref": "#/$defs/b"}, "c": {"$ref": "#/$defs/a~1b~0c"}, "d": {"$ref": "#/$defs/%C3%A4"}},
         "$defs": {"b": {"type": "string"}, "a/b~c": True, "ä": {}}},
        {"const": {"$ref": "https://example.org", "pattern": "(a*)*"}},
        doubling(10),
        chain(MAX_DEPTH - 2),
        nested(MAX_DEPTH),
        {"pattern": ".*a.*", "maxLength": 60},
    ],
    ids=[
        *("annotations", "references", "values like keywords", "a thousand subschemas", "a chain"),
        *("sixty-four levels", "a bounded text"),
    ],
)  # fmt: skip
def test_a_form_that_can_be_checked_is_accepted(schema: dict[str, Any]) -> None:
    """Also what only looks like a keyword, and the deepest and widest."""
    assert list(form_findings(schema, Limits())) == []
    first_fault(answer_form(schema), {"a": "b"})


def test_the_deepest_form_leaves_the_stack_room() -> None:
    """A caller of some hundreds of frames can still check it, and an answer of the same depth."""

    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
            return
        for keyword in ("not", "items", "additionalProperties"):
            check_schema(nested(MAX_DEPTH, keyword), Limits())
            first_fault(answer_form(nested(MAX_DEPTH, keyword)), [])
        value: Any = []
        for _ in range(MAX_DEPTH - 1):
            value = [value]
        first_fault(answer_form(nested(MAX_DEPTH, "items")), value)

    below(300)


def work(schema: dict[str, Any], value: Any) -> int:
    """How much work it takes."""
    return first_fault(answer_form(schema), value)[1]


def test_unique_objects_are_compared_in_one_pass() -> None:
    """Twice the items, about twice the work; equal are equal by JSON, not by Python."""
    form: dict[str, Any] = {"uniqueItems": True}
    few, many = ([{"id": n, "x": {"y": [n]}} for n in range(count)] for count in (2_000, 4_000))
    assert work(form, many) < 2.2 * work(form, few) < MAX_WORK / 4
    for equal in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[0], [-0.0]], ["x", "x"]):
        assert first_fault(answer_form(form), equal)[0] is not None
    for different in ([1, True], [0, False], ["1", 1], [[1, 2], [2, 1]], [None, False]):
        assert first_fault(answer_form(form), different)[0] is None


COSTLY: dict[str, tuple[dict[str, Any], Any]] = {
    "many alternatives over a long list": ({"anyOf": [{"maxItems": n} for n in range(2_000)]}, [1] * 100_000),
    "many names over many objects": ({"items": {"properties": {str(n): {} for n in range(4_000)}}}, [{}] * 50_000),
    "many values over many items": ({"items": {"enum": list(range(8_000))}}, [7_999] * 50_000),
    "unique items, many times": (
        {"allOf": [{"uniqueItems": True, "minItems": n} for n in range(500)]}, [[n] for n in range(50_000)]
    ),
    "a pattern over a long text": ({"pattern": "^[a-z]*[0-9]*$"}, "a" * 500_000),
    "patterns over many names": (
        {"patternProperties": {f"^[a-z]*{n}": {} for n in range(500)}}, {"a" * 100 + str(n): 1 for n in range(5_000)}
    ),
    "references over a long text": (doubling(10), "a" * 50_000),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), COSTLY.values(), ids=COSTLY)
def test_no_answer_takes_more_work_than_the_budget(schema: dict[str, Any], value: Any) -> None:
    """Each of these forms is accepted, and over this answer would take billions of steps, or one for each failure."""
    check_schema(schema, Limits())
    with pytest.raises(OverBudget):
        first_fault(answer_form(schema), value)


def test_an_ordinary_answer_takes_a_small_part_of_the_budget() -> None:
    """Hundreds of objects, of a form with a reference, patterns and closed keys."""
    properties = {"id": {"type": "string", "pattern": "^[a-z]+-[0-9]{1,6}$"}, "label": {"enum": ["a", "b"]}}
    item = {"type": "object", "required": ["id", "label"], "additionalProperties": False, "properties": properties}
    form = {"type": "array", "items": {"$ref": "#/$defs/item"}, "uniqueItems": True, "$defs": {"item": item}}
    answer = [{"id": f"item-{n}", "label": "a"} for n in range(600)]
    assert len(canonical_json(answer)) > 15_000
    assert work(form, answer) < MAX_WORK / 20


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 1e-3]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3),
    max_leaves=8,
)
COUNTS = st.integers(0, 3)
NAMES = st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of any of the keywords."""
    many, named = (
        st.lists(inner, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    )
    counts = (
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    )
    whole = dict.fromkeys(
        ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"), inner
    )
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(counts, COUNTS),
            **whole,
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), many),
            **dict.fromkeys(("properties", "dependentSchemas", "$defs"), named),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "^a?b"]), inner, max_size=2),
            "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"]),
            "const": VALUES, "enum": st.lists(VALUES, min_size=1, max_size=3), "uniqueItems": st.booleans(),
            "minimum": COUNTS, "exclusiveMaximum": COUNTS, "multipleOf": st.sampled_from([1, 0.5, 2]),
            "pattern": st.sampled_from(["^a", "b$", "^[ab]{2}$"]), "required": NAMES,
            "dependentRequired": st.dictionaries(st.sampled_from(["a", "b"]), NAMES, max_size=2),
            "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
        },
    )  # fmt: skip


SCHEMAS = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=6).filter(
    lambda each: isinstance(each, dict)
)


@given(SCHEMAS, VALUES)
def test_an_accepted_form_means_what_json_schema_says(schema: dict[str, Any], value: Any) -> None:
    """Written out and counted, it comes to the verdict of the plain validator."""
    try:
        form = answer_form(schema)
    except InputError:
        return
    assert (first_fault(form, value)[0] is None) == jsonschema.Draft202012Validator(schema).is_valid(value)


ANY_KEY = st.sampled_from(
    [
        *("$ref", "$defs", "$id", "$schema", "type", "pattern", "patternProperties", "maxLength", "uniqueItems"),
        *("items", "enum", "required", "allOf", "properties", "dependentRequired", "if"),
    ]
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.just("#/$defs/a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_KEY | st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(ANY_KEY, ANYTHING, max_size=4), VALUES)
def test_any_document_is_refused_or_judges_any_answer(schema: dict[str, Any], value: Any) -> None:
    """Nothing is raised but the refusal; what passes for a bundle passes for a run."""
    refused = list(form_findings(schema, Limits()))
    if refused:
        with pytest.raises(InputError):
            check_schema(schema, Limits())
        return
    first_fault(answer_form(schema), value)
