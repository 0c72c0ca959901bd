"""What becomes of each request field, by version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.parameters import ParametersDocument
from contracts.profile import DEFAULT, PROFILES, profile
from contracts.profile_fact import FieldUse
from contracts.profile_fields import FIELD_ROWS

HONOURED, DEVIATES, IGNORED = FieldUse.HONOURED, FieldUse.DEVIATES, FieldUse.IGNORED
REFUSED, DANGEROUS = FieldUse.REFUSED, FieldUse.DANGEROUS

DOCUMENTED = (
    *("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stream", "stop", "tools"),
    *("tool_choice", "response_format", "logit_bias", "logprobs", "top_logprobs", "presence_penalty", "n"),
    *("frequency_penalty", "user", "stream_options", "metadata", "service_tier", "parallel_tool_calls", "store"),
    *("top_k", "min_p", "repetition_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "adapter", "seed"),
    *("dry_sequence_breakers", "grammar", "enable_thinking", "reasoning_effort", "truncate_sequence", "session_id"),
    *("web_search_options", "enable_code_execution", "agent_permission", "max_tool_rounds", "files"),
)
"""Every field that the engine's compatibility page or its request type names."""

ALWAYS_DANGEROUS = (
    *("web_search_options", "max_tool_rounds", "session_id", "tools", "tool_choice", "files", "n", "stream:false"),
    *("enable_code_execution", "agent_permission", "truncate_sequence"),
)


@pytest.mark.parametrize("version", PROFILES)
def test_every_documented_field_is_judged(version: str) -> None:
    """In every row the same ones, each with a sentence that says how."""
    row = profile(version)
    assert set(DOCUMENTED) <= set(row.fields)
    assert set(row.fields) == set(row.field_effects) == set(profile(DEFAULT).fields)
    assert all(how.strip() for how in row.field_effects.values())
    assert all(fact.value.use in FieldUse for fact in FIELD_ROWS[version].values())


@pytest.mark.parametrize("version", PROFILES)
def test_what_could_act_is_dangerous_and_never_honoured(version: str) -> None:
    """Also where a front refuses it: what refuses may be taken away."""
    row = profile(version)
    assert {name: row.fields[name] for name in ALWAYS_DANGEROUS} == dict.fromkeys(ALWAYS_DANGEROUS, DANGEROUS)
    assert not any(row.honours(name) for name in ALWAYS_DANGEROUS)


def test_no_parameter_of_a_bundle_is_dangerous() -> None:
    """What a bundle can ask for is at worst refused."""
    for row in PROFILES.values():
        assert DANGEROUS not in {row.fields[name] for name in ParametersDocument.__struct_fields__}


CHANGES = {
    "response_format:json_object": (REFUSED, REFUSED, HONOURED, REFUSED),
    "tool_choice:required": (REFUSED, DANGEROUS, DANGEROUS, DANGEROUS),
    "reasoning_effort": (DEVIATES, DEVIATES, HONOURED, REFUSED),
    "adapter": (IGNORED, IGNORED, DANGEROUS, DANGEROUS),
    "logit_bias": (IGNORED, IGNORED, IGNORED, REFUSED),
    "seed": (IGNORED, IGNORED, IGNORED, IGNORED),
    "stream_options": (IGNORED, IGNORED, IGNORED, REFUSED),
    "user": (IGNORED, IGNORED, IGNORED, REFUSED),
    "stop": (DEVIATES, DEVIATES, DEVIATES, REFUSED),
    "logprobs": (DEVIATES, DEVIATES, DEVIATES, REFUSED),
    "top_p": (HONOURED, HONOURED, HONOURED, HONOURED),
    "top_k": (HONOURED, HONOURED, HONOURED, REFUSED),
    "enable_thinking": (HONOURED, HONOURED, HONOURED, HONOURED),
    "grammar": (HONOURED, HONOURED, HONOURED, REFUSED),
}
"""0.8.2, 0.8.17, 0.9.2, and 0.9.5 behind the closed body of our own front."""


@pytest.mark.parametrize("name", CHANGES)
def test_fields_by_version(name: str) -> None:
    """The seeds' claims about one version are facts of several."""
    assert tuple(row.fields[name] for row in PROFILES.values()) == CHANGES[name]


def test_a_name_of_part_of_a_field_belongs_to_a_field() -> None:
    """`stream:false` is a value of `stream`."""
    for row in PROFILES.values():
        assert {name.partition(":")[0] for name in row.fields} <= set(row.fields)


@given(st.sampled_from(list(PROFILES)), st.text(max_size=30) | st.sampled_from(DOCUMENTED))
def test_only_what_is_in_the_table_as_honoured_is_honoured(version: str, name: str) -> None:
    """An unknown name never is."""
    row = profile(version)
    assert row.honours(name) == (name in row.fields and row.fields[name] is HONOURED)
