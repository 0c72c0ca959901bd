"""The settings of the single-host stack: its ports, and what opens a Prefect server."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InputError
from settings.load import load


def test_ports_from_file_and_variable(tmp_path: Path) -> None:
    """A table and variables name ports; what is left out is a free one."""
    file = tmp_path / "mosaic.toml"
    file.write_text("[ports]\nprefect = 4200\ns3 = 8333\n")
    settings = load(environment={"MOSAIC_PORTS__S3": "9000"}, file=file)
    assert settings.ports.chosen == {"prefect": 4200, "s3": 9000}


@pytest.mark.parametrize("text", ["-1", "65536", "http", "4200.5", "true"])
def test_what_is_no_port(text: str) -> None:
    """Anything but 0 to 65535 is refused with the name of the setting."""
    with pytest.raises(InputError, match=r"ports\.prefect: expected a port"):
        load(environment={"MOSAIC_PORTS__PREFECT": text})


def test_the_authentication_string_is_a_secret() -> None:
    """It comes from Prefect's own variable or ours, is not shown, and is not taken from a command line."""
    settings = load(environment={"PREFECT_API_AUTH_STRING": "mosaic:one"})
    assert settings.prefect_api_auth_string is not None
    assert settings.prefect_api_auth_string.reveal() == "mosaic:one"
    shown = {name: value for name, value, _ in settings.describe()}
    assert "one" not in shown["prefect_api_auth_string"]
    ours = load(environment={"PREFECT_API_AUTH_STRING": "a:b", "MOSAIC_PREFECT_API_AUTH_STRING": "c:d"})
    assert ours.prefect_api_auth_string != settings.prefect_api_auth_string
    with pytest.raises(InputError) as refused:
        load({"prefect_api_auth_string": "mosaic:one"}, environment={})
    assert refused.value.rule == "settings-secret"
    assert "one:" not in refused.value.reason
