"""Network policies as a settings file names them, checked when the file is read, not at the first fetch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from ipaddress import ip_network
from typing import Any

from contracts.errors import InputError

_POLICY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A network policy as a settings file names it; `settings.policies` makes the policy of it."""

    schemes: tuple[str, ...] = ("https",)
    ports: tuple[int, ...] = (443,)
    allowed_hosts: tuple[str, ...] = ()
    deny_networks: tuple[str, ...] = ()
    unsafe_allow_networks: tuple[str, ...] = ()


def policy_row(policy: str, row: Any, source: str) -> PolicyRow:
    """A policy of the file, checked: a mistake here must not wait for the first fetch."""
    where = f"{source}: policies.{policy}"
    if not isinstance(row, dict) or not _POLICY_NAME.fullmatch(policy):
        raise InputError("settings-type", f"{where}: expected a table under a policy's name")
    known = {each.name: each for each in fields(PolicyRow)}
    for key, value in row.items():
        if key not in known:
            raise InputError("settings-unknown", f"{where}: no key {key!r}{closest(key, known)}")
        kind = int if key == "ports" else str
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise InputError("settings-type", f"{where}.{key}: expected a list of {kind.__name__}")
    try:
        for network in (*row.get("deny_networks", ()), *row.get("unsafe_allow_networks", ())):
            ip_network(network)
    except ValueError as error:
        raise InputError("settings-type", f"{where}: {error}") from error
    if row.get("unsafe_allow_networks") and "unsafe" not in policy:
        raise InputError("policy-unsafe-name", f"{where}: allows addresses that are not public; say unsafe in its name")
    return PolicyRow(**{key: tuple(value) for key, value in row.items()})


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: the closest name that is known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; `mosaic settings` lists them"
