"""The embedded front takes every parameter that its profile claims to honour, so that no honoured one is a 422."""

from __future__ import annotations

import json

import pytest

from contracts.digest import wire_json
from contracts.errors import InputError
from contracts.parameters import ParametersDocument
from contracts.profile import PROFILES
from serving.embedded.chat_body import ChatBody, parse_body

NAMES = ParametersDocument.__struct_fields__
BODY = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 8, "stream": True}
VALUES = {
    "seed": 7, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": 0.5,
    "repetition_penalty": 1.1, "stop": ["END"],
}  # fmt: skip


def test_what_the_profile_honours_the_front_takes() -> None:
    """The embedded engine's row promises no more than its front lets through."""
    honoured = {name for name in NAMES if PROFILES["0.9.5"].honours(name)}
    assert honoured <= set(ChatBody.__struct_fields__)


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_is_taken_or_refused_and_never_ignored(name: str) -> None:
    """By whether the front has the field."""
    body = wire_json(json.loads(wire_json(BODY)) | {name: VALUES[name]})
    if name in ChatBody.__struct_fields__:
        assert getattr(parse_body(body), name) == VALUES[name]
        return
    with pytest.raises(InputError, match="body-field"):
        parse_body(body)
