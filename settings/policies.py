"""Network policies by name: the ready ones, and those that the settings file defines, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from contracts.errors import InputError
from contracts.network_policy import PUBLIC_HTTPS, PUBLIC_WEB, NetworkPolicy
from settings.closest import closest

READY = {policy.name: policy for policy in (PUBLIC_WEB, PUBLIC_HTTPS)}
_KEYS = {each.name: int if each.name == "ports" else str for each in fields(NetworkPolicy) if each.name != "name"}


def named_policy(name: str, defined: Mapping[str, NetworkPolicy]) -> NetworkPolicy:
    """The policy called `name`. Raises InputError (policy-unknown) naming those there are."""
    policy = READY.get(name) or defined.get(name)
    if policy is None:
        raise InputError("policy-unknown", f"no policy {name!r}; there are {', '.join(sorted({*READY, *defined}))}")
    return policy


def policy_of_table(name: str, table: Any, source: str) -> NetworkPolicy:
    """The policy of one table of the file `source`.

    Raises InputError: settings-unknown, settings-type, policy-redefined (a ready policy's name keeps its meaning),
    and what NetworkPolicy refuses.
    """
    where = f"{source}: policies.{name}"
    if name in READY:
        raise InputError("policy-redefined", f"{where}: a ready policy keeps its meaning; choose another name")
    if not isinstance(table, dict):
        raise InputError("settings-type", f"{where}: expected a table")
    for key, value in table.items():
        if key not in _KEYS:
            raise InputError("settings-unknown", f"{where}: no key {key!r}{closest(key, _KEYS)}")
        if not isinstance(value, list) or not all(type(item) is _KEYS[key] for item in value):
            raise InputError("settings-type", f"{where}.{key}: expected a list of {_KEYS[key].__name__}")
    try:
        return NetworkPolicy(name=name, **{key: tuple(value) for key, value in table.items()})
    except InputError as error:
        raise InputError(error.rule, f"{source}: {error.reason}") from error
