"""Settings of the ledger's database: a URL that may hold a password, and this host's name in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InputError
from settings.load import load
from settings.secret import Secret

URL = "postgresql://mosaic:p4ss%2Fword@db.example.org/ledger?sslmode=verify-full"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of settings that sets nothing."""
    path = tmp_path / "mosaic.toml"
    path.touch()
    return path


def test_the_url_is_used_and_not_shown(file: Path) -> None:
    """Neither by the settings nor by their listing; both spellings of the scheme mean the same."""
    for url in (URL, URL.replace("postgresql:", "postgres:")):
        settings = load({}, {"MOSAIC_DATABASE_URL": url, "MOSAIC_HOST": "gpu-1.example.org"}, file)
        assert settings.database_url == Secret(URL)
        assert ("host", "gpu-1.example.org", "MOSAIC_HOST") in settings.describe()
        shown = f"{settings} {list(settings.describe())}"
        assert not [part for part in ("p4ss", "db.example", "mosaic:") if part in shown]


@pytest.mark.parametrize("url", ["mysql://p4ss@h/d", "p4ss", "postgresql://u:p4ss word@h/d", "postgresql://"])
def test_what_is_no_such_url_is_refused_without_being_shown(file: Path, url: str) -> None:
    """It may hold a password even so."""
    with pytest.raises(InputError, match=r"^settings-type: .*expected postgresql://") as refused:
        load({}, {"MOSAIC_DATABASE_URL": url}, file)
    assert "p4ss" not in refused.value.reason


def test_the_url_is_not_taken_from_a_command_line(file: Path) -> None:
    """Every process of the host could read it there."""
    with pytest.raises(InputError, match="settings-secret") as refused:
        load({"database_url": URL}, {}, file)
    assert "p4ss" not in refused.value.reason


@pytest.mark.parametrize("host", ["-a", "a b", "a/b", "a\n", "a" * 254])
def test_a_host_is_a_plain_name(file: Path, host: str) -> None:
    """It is shown, and compared."""
    with pytest.raises(InputError, match="settings-type"):
        load({}, {"MOSAIC_HOST": host}, file)
