"""Settings of object storage: a list that allows nothing by itself, and secrets that do not show."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from contracts.errors import InputError
from settings.load import load
from settings.secret import Secret
from settings.values import Settings

KEYS = {
    "MOSAIC_S3_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "MOSAIC_S3_SECRET_ACCESS_KEY": "s3cret",
    "MOSAIC_S3_SESSION_TOKEN": "t0ken/+=",
}


def loaded(folder: Path, toml: str = "", environment: dict[str, str] | None = None) -> Settings:
    """Settings of a file and an environment of the test's own."""
    path = folder / "mosaic.toml"
    path.write_text(toml, "utf-8")
    return load(environment=environment or {}, file=path)


def test_no_bucket_is_allowed_until_one_is_listed(tmp_path: Path) -> None:
    """From a list in the file, or with commas in a variable."""
    assert loaded(tmp_path).s3_source_buckets == ()
    toml = 's3_source_buckets = ["evidence", "shared/case-7"]\n'
    listed = loaded(tmp_path, toml)
    assert listed.s3_source_buckets == ("evidence", "shared/case-7")
    assert loaded(tmp_path, toml, {"MOSAIC_S3_SOURCE_BUCKETS": "other"}).s3_source_buckets == ("other",)
    assert ("s3_source_buckets", "evidence,shared/case-7", str(tmp_path / "mosaic.toml")) in list(listed.describe())


def test_secrets_are_used_and_not_shown(tmp_path: Path) -> None:
    """Neither where settings are listed, nor where a value of them is written by accident."""
    settings = loaded(tmp_path, environment=KEYS)
    assert settings.s3_secret_access_key == Secret("s3cret")
    assert settings.s3_secret_access_key.reveal() == "s3cret"
    shown = f"{settings} {list(settings.describe())} {settings.s3_secret_access_key}"
    assert not any(value in shown for value in KEYS.values())
    assert ("s3_session_token", "(hidden)", "MOSAIC_S3_SESSION_TOKEN") in list(settings.describe())


@pytest.mark.parametrize("secret", ["", "two words", "line\nfeed", "umlaut-\u00fc"])
def test_a_secret_that_is_none_is_refused_without_being_shown(tmp_path: Path, secret: str) -> None:
    """The refusal names the setting alone."""
    toml = f"s3_secret_access_key = {secret!r}\n".replace("'", '"')
    with pytest.raises(InputError, match=r"^settings-type: .*s3_secret_access_key") as refused:
        loaded(tmp_path, toml)
    assert not secret or secret not in refused.value.reason


def test_a_secret_is_not_taken_from_a_command_line(tmp_path: Path) -> None:
    """Whoever may list processes would have it."""
    (tmp_path / "mosaic.toml").write_text("", "utf-8")
    with pytest.raises(InputError, match="settings-secret") as refused:
        load({"s3_secret_access_key": "s3cret"}, {}, tmp_path / "mosaic.toml")
    assert "s3cret" not in refused.value.reason


@pytest.mark.parametrize(
    "toml",
    [
        's3_source_buckets = ["*"]',
        's3_source_buckets = "evidence,"',
        's3_source_buckets = ["evidence/"]',
        "s3_source_buckets = [1]",
        's3_endpoint_url = "http://user:pw@host:9000"',
        's3_endpoint_url = "http://host:9000/path"',
        's3_endpoint_url = "host:9000"',
        's3_region = "Mars 1"',
    ],
)
def test_what_would_mean_something_else_is_refused(tmp_path: Path, toml: str) -> None:
    """A pattern, a path or a userinfo that nothing would honour."""
    with pytest.raises(InputError, match="settings-type"):
        loaded(tmp_path, toml + "\n")


def test_a_secret_travels_between_our_processes_unharmed() -> None:
    """A pickled setting is the same setting."""
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")
