"""The profile table: every fact of every version, with how it is known."""

from __future__ import annotations

import pytest

from contracts.errors import InputError
from contracts.profile import DEFAULT, FACTS, PROFILES, profile
from contracts.profiles_table import ROWS, Basis, FieldUse


@pytest.mark.parametrize("version", PROFILES)
def test_every_fact_says_how_it_is_known(version: str) -> None:
    """No cell without a basis and a source, and no source without a cell."""
    row = profile(version)
    assert set(row.evidence) == set(FACTS) | {f"fields.{name}" for name in row.fields}
    assert all(evidence.source for evidence in row.evidence.values())
    assert {evidence.basis for evidence in row.evidence.values()} == set(Basis)


@pytest.mark.parametrize("version", PROFILES)
def test_every_row_knows_the_same_fields(version: str) -> None:
    """A request field that one row judges, all judge."""
    assert set(profile(version).fields) == set(profile(DEFAULT).fields)
    assert set(profile(version).regroup_order) == {"image", "audio", "video", "text"}


def test_versions_differ_where_the_engines_do() -> None:
    """Transport, request id, regrouping and defects by version."""
    rows = [profile(version) for version in ("0.8.2", "0.8.17", "0.9.2", "0.9.5")]
    assert [row.media_transports for row in rows] == [("file",), ("file",), ("data",), ("file",)]
    assert [row.request_id_echo for row in rows] == [False, True, True, True]
    assert [row.regroup_order.index("audio") for row in rows] == [1, 1, 3, 3]
    assert [len(row.terminal_defects) for row in rows] == [2, 2, 1, 1]


def test_fields_without_effect_are_known_as_such() -> None:
    """`seed` and `stream_options` are ignored by every version; an unknown field is not honoured."""
    for row in PROFILES.values():
        assert (row.fields["seed"], row.fields["stream_options"]) == (FieldUse.IGNORED, FieldUse.IGNORED)
        assert not row.honours("seed")
        assert not row.honours("tools")
        assert row.honours("max_tokens")


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    """The reason lists what there is."""
    with pytest.raises(InputError) as refused:
        profile("0.8.3")
    assert refused.value.rule == "profile-unknown"
    assert all(version in refused.value.reason for version in PROFILES)


def test_the_default_is_in_the_table_and_rows_cannot_be_changed() -> None:
    """A profile is a value."""
    assert list(PROFILES) == list(ROWS)
    assert DEFAULT == "0.8.17"
    with pytest.raises(TypeError):
        profile(DEFAULT).fields["seed"] = FieldUse.HONOURED  # type: ignore[index]
