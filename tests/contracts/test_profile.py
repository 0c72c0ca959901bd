"""The profile table: every fact of every version, with how it is known."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.errors import InputError
from contracts.profile import DEFAULT, FACTS, PROFILES, profile
from contracts.profile_fields import FIELD_ROWS
from contracts.profiles_table import ROWS, Basis, FieldUse

MIB = 1 << 20


@pytest.mark.parametrize("version", PROFILES)
def test_every_fact_says_how_it_is_known(version: str) -> None:
    """No cell without a basis and a source, and no source without a cell."""
    row = profile(version)
    assert set(row.evidence) == set(FACTS) | {f"fields.{name}" for name in row.fields}
    assert all(evidence.source.strip() for evidence in row.evidence.values())
    assert {evidence.basis for evidence in row.evidence.values()} == set(Basis)


@pytest.mark.parametrize("version", PROFILES)
def test_every_row_states_every_fact_and_no_other(version: str) -> None:
    """A row that lacks one, or has one that nothing reads, is a mistake of writing."""
    assert set(ROWS[version]) == set(FACTS)
    assert {frozenset(order) for order in profile(version).regroup_orders} == {
        frozenset(("image", "audio", "video", "text"))
    }


def test_what_was_measured_elsewhere_is_not_said_to_be_measured() -> None:
    """A fact that a row takes over from an older version is a read one, and names the version that it is from."""
    for newer, older in (("0.8.17", "0.8.2"), ("0.9.2", "0.8.17"), ("0.9.5", "0.9.2")):
        for table in (ROWS, FIELD_ROWS):
            for name, fact in table[newer].items():
                if "; as in " in fact.source:
                    assert fact.basis is Basis.READ, name
                    assert fact.value == table[older][name].value
                else:
                    assert fact != table[older][name], name


CHANGES: dict[str, tuple[Any, Any, Any, Any]] = {
    "has_server": (True, True, True, False),
    "media_transports": (("file",), ("file",), ("data",), ("file",)),
    "media_part_bytes": (None, None, 64 * MIB, 64 * MIB),
    "remote_media": ("any address", "any address", "public addresses", "none"),
    "body_bytes": (50 * MIB, 50 * MIB, 50 * MIB, 1 * MIB),
    "video_frames": (None, None, 32, None),
    "multimodal_on_cpu": (False, False, True, True),
    "request_id_echo": (False, True, True, True),
    "metrics": (False, True, True, False),
    "access_log": (False, True, True, False),
    "least_completion_tokens": (1, 1, 0, 0),
    "disconnect_kills_engine": (True, False, False, False),
    "refuses_overload": (False, False, False, True),
    "schema_guidance": (False, False, False, True),
    "finish_reasons": (("stop", "length", "tool_calls"),) * 3 + (("stop", "length"),),
}
"""What changes from version to version: 0.8.2, 0.8.17, 0.9.2, 0.9.5."""


@pytest.mark.parametrize("name", CHANGES)
def test_versions_differ_where_the_engines_do(name: str) -> None:
    """Transports, limits, request ids, logs and defects by version."""
    assert tuple(getattr(row, name) for row in PROFILES.values()) == CHANGES[name]


def test_regrouping_and_defects_change_with_0_9() -> None:
    """Audio moves behind the text in one family of models, and the last chunk always comes."""
    rows = [profile(version) for version in ("0.8.2", "0.8.17", "0.9.2", "0.9.5")]
    assert [[order.index("audio") for order in row.regroup_orders] for row in rows] == [[1], [1], [1, 3], [3]]
    assert [[defect.name for defect in row.terminal_defects] for row in rows] == [
        ["split-utf8-eof", "kv-pool-too-small"],
        ["split-utf8-eof", "kv-pool-too-small"],
        ["kv-pool-too-small"],
        ["kv-pool-too-small"],
    ]


STEADY = set(FACTS) - set(CHANGES) - {"regroup_orders", "terminal_defects"}


@pytest.mark.parametrize("name", sorted(STEADY))
def test_what_did_not_change_is_the_same_in_all_rows(name: str) -> None:
    """Ids, roles, usage, the forms of errors and keep-alives: one wire."""
    assert len({getattr(row, name) for row in PROFILES.values()}) == 1


def test_the_wire_that_all_versions_share() -> None:
    """The seed's wish for one role, a limit by flag and an error envelope is not what engines do."""
    for row in PROFILES.values():
        assert (row.role_in_every_delta, row.keep_alive_s, row.keep_alive_form) == (True, 10.0, ":\n\n")
        assert (row.response_id_pattern, row.error_form) == ("[0-9]{1,20}", '{"message": text}')
        lacking = (row.takes_lone_medium, row.authenticates, row.health_tells_engine, row.stops_gracefully)
        assert lacking == (False, False, False, False)


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    """The reason lists what there is."""
    with pytest.raises(InputError) as refused:
        profile("0.8.3")
    assert refused.value.rule == "profile-unknown"
    assert all(version in refused.value.reason for version in PROFILES)


def test_the_default_is_in_the_table_and_rows_cannot_be_changed() -> None:
    """A profile is a value."""
    assert list(PROFILES) == list(ROWS) == list(FIELD_ROWS)
    assert DEFAULT == "0.8.17"
    row = profile(DEFAULT)
    for mapping in (row.fields, row.field_effects, row.evidence):
        with pytest.raises(TypeError):
            mapping["seed"] = FieldUse.HONOURED  # type: ignore[index]
