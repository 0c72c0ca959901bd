"""The embedded front does with each request field what the profile of its engine says."""

from __future__ import annotations

import json

import pytest

from contracts.digest import wire_json
from contracts.errors import InputError
from contracts.profile import profile
from contracts.profile_fact import FieldUse
from serving.embedded.chat_body import ChatBody, parse_body
from tests.serving.test_front_parameters import BODY

ROW = profile("0.9.5")
VALUES = {"stream:false": False, "response_format:json_object": {"type": "json_object"}}


@pytest.mark.parametrize("name", ROW.fields)
def test_a_field_is_taken_where_it_is_honoured_and_refused_where_it_is_not(name: str) -> None:
    """A field that is not honoured is a 422 by its name, whatever its value."""
    field = name.partition(":")[0]
    if ROW.fields[name] is FieldUse.HONOURED:
        assert field in ChatBody.__struct_fields__
        return
    body = json.loads(wire_json(BODY)) | {field: VALUES.get(name, 1)}
    with pytest.raises(InputError, match="body-field"):
        parse_body(wire_json(body))
