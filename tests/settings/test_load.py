"""Settings: which source wins, what each value says of its origin, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from contracts.errors import InputError
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_HTTPS, NetworkPolicy
from settings.environment import minimal_environment
from settings.load import load
from settings.values import REPOSITORY, Settings


def loaded(
    tmp_path: Path,
    toml: str = "",
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    file = tmp_path / "mosaic.toml"
    file.write_text(toml, "utf-8")
    return load(overrides, environment or {}, file)


def test_without_sources_everything_is_default() -> None:
    """An empty environment gives the local topology: own worker, own Prefect, state in the repository."""
    settings = load(environment={}, file=None) if not (REPOSITORY / "mosaic.toml").exists() else Settings()
    assert (settings.home, settings.worker_url, settings.prefect_api_url) == (REPOSITORY / ".mosaic", None, None)
    assert (settings.tenant, settings.policy, settings.limits) == ("default", "public-web", Limits())
    assert {source for _, _, source in settings.describe()} == {"default"}


def test_the_later_source_wins_and_is_named(tmp_path: Path) -> None:
    """default < file < variable < --set, and each value says which it was."""
    toml = 'tenant = "t-file"\nrelease = "r-file"\nworker_slots = 2\n[limits]\nimage_bytes = 5\naudio_bytes = 6\n'
    environment = {"MOSAIC_RELEASE": "r-env", "MOSAIC_WORKER_SLOTS": "3", "MOSAIC_LIMITS__AUDIO_BYTES": "7"}
    settings = loaded(tmp_path, toml, environment, {"worker_slots": "4", "limits.total_s": "8.5"})
    assert (settings.tenant, settings.release, settings.worker_slots) == ("t-file", "r-env", 4)
    assert settings.limits == Limits().changed({"image_bytes": 5, "audio_bytes": 7, "total_s": 8.5})
    origin = {name: source for name, _, source in settings.describe()}
    assert (origin["tenant"], origin["limits.image_bytes"]) == (str(tmp_path / "mosaic.toml"),) * 2
    assert (origin["release"], origin["limits.audio_bytes"]) == ("MOSAIC_RELEASE", "MOSAIC_LIMITS__AUDIO_BYTES")
    assert (origin["worker_slots"], origin["limits.total_s"], origin["policy"]) == ("--set", "--set", "default")


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    """MOSAIC_SETTINGS names another file, and a named file must exist."""
    (tmp_path / "other.toml").write_text('tenant = "other"\n', "utf-8")
    assert load(environment={"MOSAIC_SETTINGS": str(tmp_path / "other.toml")}).tenant == "other"
    with pytest.raises(InputError, match="cannot be read") as refused:
        load(environment={"MOSAIC_SETTINGS": str(tmp_path / "absent.toml")})
    assert refused.value.rule == "settings-file"


def test_our_variable_goes_before_prefects(tmp_path: Path) -> None:
    """PREFECT_API_URL is honoured; MOSAIC_PREFECT_API_URL says otherwise."""
    theirs = {"PREFECT_API_URL": "http://theirs:4200/api"}
    assert loaded(tmp_path, environment=theirs).prefect_api_url == "http://theirs:4200/api"
    ours = theirs | {"MOSAIC_PREFECT_API_URL": "http://ours:4200/api"}
    assert loaded(tmp_path, environment=ours).prefect_api_url == "http://ours:4200/api"


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    """Compose files leave empty variables; they change nothing."""
    assert loaded(tmp_path, environment={"MOSAIC_TENANT": "", "PREFECT_API_URL": ""}).tenant == "default"


def test_relative_homes_are_relative_to_who_says_so(tmp_path: Path) -> None:
    """A file's path is relative to the file, a variable's to the working directory; the rest lies beneath."""
    settings = loaded(tmp_path, 'home = "state"\n')
    assert settings.home == tmp_path / "state"
    paths = (settings.staging, settings.reports, settings.logs, settings.engine, settings.prefect)
    assert {path.parent for path in paths} == {settings.home}
    assert len(set(paths)) == len(paths)
    assert loaded(tmp_path, 'home = "state"\n', {"MOSAIC_HOME": "here"}).home == Path.cwd() / "here"


@pytest.mark.parametrize(
    ("toml", "environment", "overrides", "rule", "words"),
    [
        ('tennant = "a"', {}, {}, "settings-unknown", "did you mean tenant?"),
        ("[limits]\nimage_byte = 1", {}, {}, "settings-unknown", "did you mean limits.image_bytes?"),
        ("", {"MOSAIC_LIMITS__IMAGE_BYTE": "1"}, {}, "settings-unknown", "MOSAIC_LIMITS__IMAGE_BYTE"),
        ("", {}, {"worker_slot": "1"}, "settings-unknown", "did you mean worker_slots?"),
        ('tenant = "A b"', {}, {}, "settings-type", "tenant: expected 1 to 32"),
        ("tenant = 3", {}, {}, "settings-type", "tenant: expected"),
        ("", {"MOSAIC_TENANT": "a\n"}, {}, "settings-type", "MOSAIC_TENANT: tenant: expected"),
        ("worker_slots = 0", {}, {}, "settings-type", "expected at least 1, got 0"),
        ("worker_slots = 1.5", {}, {}, "settings-type", "expected a whole number"),
        ("worker_slots = true", {}, {}, "settings-type", "expected a number"),
        ("fetch_tries = 0", {}, {}, "settings-type", "expected at least 1, got 0"),
        ("fetch_per_host = 0", {}, {}, "settings-type", "expected at least 1, got 0"),
        ("unsafe_isolation = 1", {}, {}, "settings-type", "expected true or false"),
        ("", {"MOSAIC_UNSAFE_ISOLATION": "1"}, {}, "settings-type", "expected true or false"),
        ("", {}, {"unsafe_isolation": "yes"}, "settings-type", "expected true or false"),
        ("[limits]\ntotal_s = inf", {}, {}, "settings-type", "expected at least 0, got inf"),
        ("[limits]\ntotal_s = nan", {}, {}, "settings-type", "expected at least 0, got nan"),
        ("", {}, {"limits.image_bytes": "many"}, "settings-type", "--set: limits.image_bytes"),
        ("", {}, {"limits.image_bytes": "-1"}, "settings-type", "expected at least 0, got -1"),
        ('worker_url = "localhost:1"', {}, {}, "settings-type", "expected an http or https URL"),
        ("limits = 3", {}, {}, "settings-type", "expected a table"),
        ("tenant = ", {}, {}, "settings-file", "not TOML"),
        ("[policies.lab]\nport = [80]", {}, {}, "settings-unknown", "did you mean ports?"),
        ("[policies.lab]\nports = 80", {}, {}, "settings-type", "expected a list of int"),
        ("[policies.lab]\nports = [true]", {}, {}, "settings-type", "expected a list of int"),
        ('[policies.lab]\ndeny_networks = ["10.0.0.1/8"]', {}, {}, "policy-network", "10.0.0.1/8"),
        (
            '[policies.lab]\nunsafe_allow_networks = ["10.0.0.0/8"]',
            {},
            {},
            "policy-unsafe-name",
            "need the word unsafe",
        ),
        ("[policies.Lab]\nports = [80]", {}, {}, "policy-name", "expected a kebab-case name"),
        ("[policies.public-web]\nports = [80]", {}, {}, "policy-redefined", "choose another name"),
        ("policies = 3", {}, {}, "settings-unknown", "no setting 'policies'"),
        ('policy = "lab"', {}, {}, "policy-unknown", "there are allowlist, public-https, public-web"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(
    tmp_path: Path, toml: str, environment: dict[str, str], overrides: dict[str, str], rule: str, words: str
) -> None:
    """A mistyped name or value stops the program and names its source; it is never ignored."""
    with pytest.raises(InputError) as refused:
        loaded(tmp_path, toml, environment, overrides)
    assert refused.value.rule == rule
    assert words in refused.value.reason


def test_isolation_is_lifted_by_the_word_alone(tmp_path: Path) -> None:
    """Confinement is asked for by default; only a literal true lifts the demand, from any source."""
    assert loaded(tmp_path).unsafe_isolation is False
    assert loaded(tmp_path, "unsafe_isolation = true\n").unsafe_isolation is True
    assert loaded(tmp_path, environment={"MOSAIC_UNSAFE_ISOLATION": "true"}).unsafe_isolation is True
    lowered = loaded(tmp_path, "unsafe_isolation = true\n", overrides={"unsafe_isolation": "false"})
    assert lowered.unsafe_isolation is False
    assert ("unsafe_isolation", "false", "--set") in list(lowered.describe())


def test_shown_urls_hold_no_secrets(tmp_path: Path) -> None:
    """What is in force is shown without userinfo and query."""
    settings = loaded(tmp_path, environment={"MOSAIC_WORKER_URL": "http://user:pw@host:1/v1?key=s3cret"})
    assert settings.worker_url == "http://user:pw@host:1/v1?key=s3cret"
    assert ("worker_url", "http://host:1/v1", "MOSAIC_WORKER_URL") in list(settings.describe())


def test_a_child_inherits_no_secret() -> None:
    """Only names that find things are passed on, and what the caller adds."""
    os.environ["SOME_TOKEN"] = "s3cret"
    try:
        environment = minimal_environment({"PORT": "1"})
    finally:
        del os.environ["SOME_TOKEN"]
    assert {"PATH", "LANG", "PORT"} <= set(environment) <= {"PATH", "HOME", "TMPDIR", "TZ", "LANG", "PORT"}


def test_a_file_defines_policies(tmp_path: Path) -> None:
    """A table under policies is a network policy; the ready ones stay beside it."""
    toml = 'policy = "unsafe-lab"\n[policies.unsafe-lab]\nports = [8080]\nunsafe_allow_networks = ["10.0.0.0/8"]\n'
    settings = loaded(tmp_path, toml)
    lab = NetworkPolicy("unsafe-lab", ports=(8080,), unsafe_allow_networks=("10.0.0.0/8",))
    assert settings.network_policy() == lab
    assert settings.network_policy("public-https") == PUBLIC_HTTPS
    assert ("policies.unsafe-lab.ports", "8080", str(tmp_path / "mosaic.toml")) in list(settings.describe())
    with pytest.raises(InputError, match="there are allowlist, public-https, public-web, unsafe-lab"):
        settings.network_policy("lab")
