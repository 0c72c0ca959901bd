"""Structured answers: checked again here, bounded, and without fetching anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.answer import check_answer
from contracts.answer_form import MAX_DEPTH
from contracts.digest import canonical_json, wire_json
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


def test_a_form_that_was_refused_judges_nothing() -> None:
    """Nobody comes to a verdict by a form that cannot be checked."""
    for form in ({"$ref": "#"}, {"$ref": "https://example.org/s.json"}, {"pattern": "^(a+)+$"}):
        with pytest.raises(InputError, match="schema-"):
            answered("{}", form)


def test_an_answer_that_is_too_much_work_is_invalid_by_name() -> None:
    """The work is counted, so that whoever verifies it comes to the same end."""
    form = {"items": {"pattern": "^[a-z]*[0-9]*[a-z]$"}}
    assert answered('["ab12c"]', form)[0] is Outcome.COMPLETE
    assert answered(f'["{"a" * 5_000}"]', form)[:2] == (Outcome.ANSWER_INVALID, "answer-work")


def test_what_is_handed_on_can_be_written_by_both_serialisers() -> None:
    """Numbers that overflow or that readers round, and halves of surrogate pairs, are no answer."""
    for text in ("1e999", "-1e999", "1e16", str(2**53), '"\\ud800"', '{"\\udc00": 1}'):
        assert answered(text, {})[:2] == (Outcome.ANSWER_INVALID, "answer-json")
    _, _, value = answered('["\\ud83d\\ude00", 9007199254740991, 1e-3]', {})
    assert json.loads(canonical_json(value)) == json.loads(wire_json(value)) == value


@given(st.text(max_size=60) | st.lists(st.sampled_from(list('[]{}",:1a\\')), max_size=40).map("".join))
def test_any_text_is_judged(text: str) -> None:
    """Nothing is raised, and a value comes only with `complete`."""
    outcome, rule, value = answered(text.replace("\0", ""))
    assert (rule is None) == (outcome is Outcome.COMPLETE)
    assert value is None or outcome is Outcome.COMPLETE
