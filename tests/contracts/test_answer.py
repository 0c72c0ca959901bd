"""Structured answers: checked again here, bounded, and without fetching anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.answer import MAX_DEPTH, check_answer, check_schema
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.outcome import Outcome
from tests.contracts.wire_chunks import DONE, chunk, last, verdict

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"label": {"enum": ["blue", "red"]}, "count": {"$ref": "#/$defs/n"}},
    "required": ["label"],
    "additionalProperties": False,
    "$defs": {"n": {"type": "integer"}},
}


def answered(text: str, schema: dict[str, Any] = SCHEMA, **limits: int) -> tuple[Outcome, str | None, Any]:
    """Outcome, rule and value for a complete stream with this text; the text is kept in any case."""
    completion = verdict(chunk(text), last(), DONE)
    got = check_answer(completion, schema, Limits().changed(limits))
    assert got.completion.text == text
    assert got.completion.usage == completion.usage
    return got.completion.outcome, got.completion.rule, got.structured


def test_a_valid_answer_stays_complete_and_is_parsed() -> None:
    """The value is handed on beside the completion."""
    assert answered(' {"label":"blue","count":2}\n') == (Outcome.COMPLETE, None, {"label": "blue", "count": 2})


INVALID = {
    "prose": ("It is blue.", "answer-json"),
    "an empty text": ("", "answer-json"),
    "JSON and more": ('{"label":"blue"} indeed', "answer-json"),
    "a key twice": ('{"label":"red","label":"blue"}', "answer-json"),
    "NaN": ('{"label":"blue","count":NaN}', "answer-json"),
    "a number too long to read": ('{"label":"blue","count":' + "9" * 5_000 + "}", "answer-json"),
    "a missing key": ("{}", "answer-schema"),
    "another value": ('{"label":"green"}', "answer-schema"),
    "a value that fails behind a reference": ('{"label":"blue","count":"2"}', "answer-schema"),
    "an extra key": ('{"label":"blue","why":"x"}', "answer-schema"),
    "deep nesting": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "answer-depth"),
    "very deep nesting": ("[" * 200_000, "answer-depth"),
}


@pytest.mark.parametrize(("text", "rule"), INVALID.values(), ids=INVALID)
def test_an_answer_that_does_not_satisfy_its_form_is_invalid_by_name(text: str, rule: str) -> None:
    """Outcome `answer_invalid`, text kept, no value."""
    assert answered(text) == (Outcome.ANSWER_INVALID, rule, None)


def test_size_and_depth_are_inclusive_maxima() -> None:
    """Brackets inside strings do not nest."""
    anything: dict[str, Any] = {}
    assert answered('"äb"', anything, answer_bytes=5)[0] is Outcome.COMPLETE
    assert answered('"äb"', anything, answer_bytes=4)[:2] == (Outcome.ANSWER_INVALID, "answer-bytes")
    assert answered("[" * MAX_DEPTH + "]" * MAX_DEPTH, anything)[0] is Outcome.COMPLETE
    assert answered('"' + "[" * 100 + '\\"{{"', anything)[0] is Outcome.COMPLETE


def test_only_complete_streams_are_judged() -> None:
    """A text that its budget ended, and a failure, are handed back unchanged."""
    for completion in (verdict(last("{", finish="length"), DONE), verdict(chunk("{}"))):
        got = check_answer(completion, SCHEMA, Limits())
        assert (got.completion, got.structured) == (completion, None)


def test_a_schema_that_recurses_for_ever_makes_the_answer_invalid() -> None:
    """A reference to itself is inside the schema, and still cannot be satisfied."""
    assert answered("{}", {"$ref": "#"})[:2] == (Outcome.ANSWER_INVALID, "answer-schema")


@pytest.mark.parametrize("target", ["https://example.org/s.json", "other.json", "#/$defs/missing"])
def test_no_reference_is_ever_fetched(target: str) -> None:
    """One that leads out of the schema is an invalid answer even if the form was not checked before."""
    assert answered("{}", {"$ref": target})[:2] == (Outcome.ANSWER_INVALID, "answer-schema")


DEEP: dict[str, Any] = {}
for _ in range(MAX_DEPTH + 1):
    DEEP = {"not": DEEP}

BAD_FORMS: dict[str, dict[str, Any]] = {
    "schema-reference": {"items": [{"$ref": "https://example.org/s.json"}]},
    "schema-depth": DEEP,
    "schema-bytes": {"description": "x" * 70_000},
    "schema-pattern": {"pattern": "a" * 257},
    "schema-form": {"type": "objekt"},
}


@pytest.mark.parametrize("rule", BAD_FORMS)
def test_a_form_that_cannot_be_checked_is_refused_before_it_is_asked(rule: str) -> None:
    """Each by its own name; the good one passes."""
    with pytest.raises(InputError) as refused:
        check_schema(BAD_FORMS[rule], Limits())
    assert refused.value.rule == rule
    check_schema(SCHEMA, Limits())


@given(st.text(max_size=60) | st.lists(st.sampled_from(list('[]{}",:1a\\')), max_size=40).map("".join))
def test_any_text_is_judged(text: str) -> None:
    """Nothing is raised, and a value comes only with `complete`."""
    outcome, rule, value = answered(text.replace("\0", ""))
    assert (rule is None) == (outcome is Outcome.COMPLETE)
    assert value is None or outcome is Outcome.COMPLETE
