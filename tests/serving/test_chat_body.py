"""Hostile bodies: any bytes either are a request of ours or are refused by name."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import wire_json
from contracts.errors import InputError
from serving.embedded.chat_body import ChatBody, parse_body

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_GOOD: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    "max_tokens": 8,
    "temperature": 0.0,
    "stream": True,
    "enable_thinking": False,
}


def _parses_or_refuses(data: bytes) -> ChatBody | None:
    try:
        return parse_body(data)
    except InputError as error:
        if error.rule not in {"body-json", "body-field"}:
            raise
        return None


def test_good_body() -> None:
    """A request as the product builds it is taken."""
    assert parse_body(wire_json(_GOOD)).max_tokens == 8


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """No bytes raise anything else than a refusal."""
    assert _parses_or_refuses(data) is None


@given(st.sampled_from(sorted(_GOOD)), _VALUES)
def test_any_value(name: str, value: Any) -> None:
    """No value in a known field raises anything else than a refusal."""
    _parses_or_refuses(json.dumps(_GOOD | {name: value}).encode())


@given(st.text(max_size=12).filter(lambda name: name not in {*_GOOD, "top_p", "response_format"}), _VALUES)
def test_any_other_field(name: str, value: Any) -> None:
    """Any other field is refused, whatever its value."""
    assert _parses_or_refuses(json.dumps(_GOOD | {name: value}).encode()) is None


def test_schema_reaches_the_grammar() -> None:
    """The schema goes to the engine with its `x-guidance` and in its order."""
    schema = {"type": "object", "x-guidance": {"whitespace_flexible": False}, "properties": {"b": {}, "a": {}}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert parse_body(wire_json(_GOOD | {"response_format": form})).grammar == wire_json(schema).decode()
