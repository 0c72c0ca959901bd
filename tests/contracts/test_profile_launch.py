"""Launch flags: since when, and which nothing of ours can say."""

from __future__ import annotations

import pytest

from contracts.launch import has_flag, launch_argv
from contracts.profile import PROFILES, profile
from contracts.profile_launch import LAUNCH_FLAGS, OLDEST, first_version, flags_of, numbers
from contracts.release import parse_release
from tests.contracts.releases import PLAN, WHOLE, changed, manifest

BY_NAME = {flag.name: flag for flag in LAUNCH_FLAGS}


def test_each_flag_is_there_once_with_all_that_is_known_of_it() -> None:
    """Basis and source for each, and a form that a parser knows."""
    assert len(BY_NAME) == len(LAUNCH_FLAGS)
    for flag in LAUNCH_FLAGS:
        assert flag.name.startswith("--")
        assert flag.source.strip()
        assert flag.effect.strip()
        assert numbers(flag.since) >= numbers(OLDEST)


@pytest.mark.parametrize(
    ("flag", "since"),
    [
        *(("--access-log-format", "0.8.11"), ("--mcp-port", "0.8.4"), ("--enable-shell", "0.8.4")),
        *(("--skills-dir", "0.8.4"), ("--max-edge", "0.8.2"), ("--paged-attn", "0.8.2"), ("--cpu", "0.8.2")),
        *(("--body-limit", None), ("--cors", None), ("model-id", None), ("", None)),
    ],
)
def test_the_first_version_that_has_a_flag(flag: str, since: str | None) -> None:
    """Documents of 0.8.2 name `--mcp-port`; its code does not. No version has a flag for the body's limit."""
    assert first_version(flag) == since


@pytest.mark.parametrize("document", [PLAN, WHOLE], ids=["the seed's plan", "a pool and a quantisation"])
def test_every_flag_of_an_argument_vector_is_in_the_table_and_may_be_asked_for(document: dict[str, object]) -> None:
    """Whatever a release can ask for has a row, and none that says never."""
    argv = launch_argv(release := parse_release(manifest(changed(document, {}))), release.engine_profile())
    flags = [argument for argument in argv if argument.startswith("--")]
    assert flags
    assert [flag for flag in flags if BY_NAME[flag].why_never is not None] == []


@pytest.mark.parametrize("flag", ["--log", "--agent", "--enable-search", "--enable-code-execution", "--mcp-config"])
def test_what_acts_or_records_can_be_asked_for_by_nobody(flag: str) -> None:
    """It exists, so the table says why it is not used."""
    assert BY_NAME[flag].why_never


@pytest.mark.parametrize("flag", ["--arch", "--mtp-model", "--no-kv-cache", "--hf-cache", "--imatrix", "--sandbox"])
def test_flags_that_no_release_needs_say_so(flag: str) -> None:
    """The parser has them since the oldest version; a manifest has no field for them."""
    assert BY_NAME[flag].why_never
    assert first_version(flag) == OLDEST


def test_a_version_has_its_flags_and_a_wheel_has_none() -> None:
    """As the launch plan asks, and only where there is a server."""
    for version, row in PROFILES.items():
        assert row.launch_flags == (flags_of(version) if row.has_server else ())
        assert {flag.name for flag in flags_of(version)} == {name for name in BY_NAME if has_flag(version, name)}
    names = [{flag.name for flag in profile(version).launch_flags} for version in PROFILES]
    assert names[1] - names[0] == {
        *("--access-log-format", "--disable-access-log", "--disable-request-id-header", "--disable-metrics"),
        *("--mcp-port", "--enable-shell", "--skills-dir"),
    }
    assert names[2] == names[1]
    assert names[3] == set()
