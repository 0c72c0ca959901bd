"""The sources of settings: a TOML file, variables, `--set`. Each becomes a flat mapping of dotted names.

Text from a variable or `--set` and a value from TOML meet the same rules in `settings.load`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contracts.errors import InputError

PREFIX = "MOSAIC_"
FILE_VARIABLE = "MOSAIC_SETTINGS"
STACK_STORAGE = Path("stack/storage.toml")  # below the home: what `mosaic up` puts there is the weakest source
_NESTED = "__"
_TABLES = ("limits", "deny", "ports")
_FOREIGN = {  # what who runs a Prefect server has set already
    "PREFECT_API_URL": "prefect_api_url",
    "PREFECT_API_AUTH_STRING": "prefect_api_auth_string",
}


def from_file(path: Path) -> dict[str, Any]:
    """The dotted names of a TOML file; tables whose names are yours (`policies`, `tenant_policies`, `retention_days`)
    stay tables.

    Raises InputError: settings-file where it cannot be read or is not TOML.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError("settings-file", f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError("settings-file", f"{path}: not TOML: {error}") from error
    for table in _TABLES:
        values = document.pop(table, {})
        if not isinstance(values, dict):
            raise InputError("settings-type", f"{path}: {table}: expected a table")
        document |= {f"{table}.{name}": value for name, value in values.items()}
    return document


def from_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Dotted name to (variable, text). `MOSAIC_LIMITS__IMAGE_BYTES` is `limits.image_bytes`.

    Ours goes before PREFECT_API_URL. An empty variable counts as not set, as compose files leave them.
    """
    found = {
        name: (variable, environment[variable]) for variable, name in _FOREIGN.items() if environment.get(variable)
    }
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable != FILE_VARIABLE and text:
            name = variable.removeprefix(PREFIX).lower().replace(_NESTED, ".")
            found[name] = (variable, text)
    return found
