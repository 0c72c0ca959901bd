"""How the settings of the ledger's database are read: where it is, and who writes in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from settings.secret import Secret

_URL = re.compile(r"postgres(?:ql)?://[\x21-\x7e]+")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def database_url(value: Any) -> Secret:
    """The URL, which may hold a password. Raises ValueError, which does not show it."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError("expected postgresql://user@host/database, in printable ASCII (not shown: it is a secret)")
    return Secret(value.replace("postgres://", "postgresql://", 1))


def _host(value: Any) -> str:
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise ValueError("expected a host's name: letters, digits, and . _ - after the first")
    return value


DATABASE_READERS: Mapping[str, Callable[[Any], Any]] = {"database_url": database_url, "host": _host}
