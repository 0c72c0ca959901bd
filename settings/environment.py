"""The process environment: read here and nowhere else, and handed to children only by name."""

from __future__ import annotations

import os
from collections.abc import Mapping

_INHERITED = ("PATH", "HOME", "TMPDIR", "TZ")  # where programs and files are found; no token travels by these names
_PATH = "/usr/local/bin:/usr/bin:/bin"


def process_environment() -> Mapping[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def minimal_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a child: where to find things, UTF-8, and `extra`.

    Credentials, proxies and loader variables of ours are not inherited: a child gets what is named here.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"PATH": _PATH, "LANG": "C.UTF-8", **inherited, **(extra or {})}


def export(values: Mapping[str, str]) -> None:
    """Set variables that a library reads from the environment and from nowhere else; what is set already stays."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def environment_of(prefixes: tuple[str, ...]) -> dict[str, str]:
    """The variables of this process whose names begin with one of `prefixes`: for a child that reads the same
    settings as we do."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
