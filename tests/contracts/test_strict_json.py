"""Strict JSON: what is read can be written again, by both serialisers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.digest import canonical_json, wire_json
from contracts.errors import InputError
from contracts.strict_json import read_strict

REFUSED = {
    "a key twice": ('{"a":1,"a":1}', "json-form"),
    "NaN": ("[NaN]", "json-form"),
    "an infinity": ("-Infinity", "json-form"),
    "a number that overflows": ("[1e999]", "json-form"),
    "a negative number that overflows": ("-1e999", "json-form"),
    "an integer that readers round": (str(2**53), "json-form"),
    "an integer of thousands of digits": ("9" * 5_000, "json-form"),
    "a float that is such an integer": ("1e16", "json-form"),
    "half of a surrogate pair": ('"\\ud800"', "json-form"),
    "the other half, as a key": ('{"\\uDC00":1}', "json-form"),
    "half of a pair unescaped": ('"\ud800"', "json-form"),
    "nothing": ("", "json-form"),
    "two values": ("1 2", "json-form"),
    "a byte order mark": ("\ufeff1", "json-form"),
    "UTF-16": ("1".encode("utf-16"), "json-form"),
    "bytes that are no UTF-8": (b'"\xff"', "json-form"),
    "a deep list": ("[" * 5 + "]" * 5, "json-depth"),
    "a hundred thousand brackets": ("[" * 100_000, "json-depth"),
    "brackets after a string": ('["]]]]",' + "[" * 9, "json-depth"),
}


@pytest.mark.parametrize(("text", "rule"), REFUSED.values(), ids=REFUSED)
def test_what_readers_disagree_about_is_refused(text: str | bytes, rule: str) -> None:
    """By name, without a parser having recursed into it."""
    with pytest.raises(InputError) as refused:
        read_strict(text, max_depth=4)
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"ä":"\\ud83d\\ude00"}', {"ä": "😀"}), (str(2**53 - 1), 2**53 - 1), (b"[[[[1.5]]]]", [[[[1.5]]]]),
     ('"[[[[[[\\\\\\"{{"', '[[[[[[\\"{{'), (" 1e-400", 0.0)],
)  # fmt: skip
def test_what_everybody_reads_alike_is_read(text: str | bytes, value: object) -> None:
    """Whole pairs, the largest exact integer, the deepest nesting, brackets in strings."""
    assert read_strict(text, max_depth=4) == value


def _written(value: Any) -> str:
    return json.dumps(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
).map(_written)
SOUP = st.lists(st.sampled_from(["{", "}", "[", "]", '"', "\\", "\\ud8", ":", ",", "1", "e9", "e999", "-", "a"])).map(
    "".join
)


@given(VALUES | SOUP | st.text() | st.binary())
@example('"\\ud800"')
@example("1e999")
def test_any_text_is_refused_or_can_be_written_again(text: str | bytes) -> None:
    """Nothing else is raised, and both serialisers take every value that passed."""
    try:
        value = read_strict(text, max_depth=8)
    except InputError:
        return
    assert read_strict(wire_json(value), max_depth=8) == value
    assert read_strict(canonical_json(value), max_depth=8) == value
