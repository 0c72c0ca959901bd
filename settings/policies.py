"""Network policies by name: the ready ones, and those that the settings file defines, checked when it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from contracts.errors import InputError
from contracts.network_policy import ALLOWLIST, PUBLIC_HTTPS, PUBLIC_WEB, NetworkPolicy
from contracts.retention import Retention
from settings.closest import closest

READY = {policy.name: policy for policy in (PUBLIC_WEB, PUBLIC_HTTPS, ALLOWLIST)}
_FLAGS = frozenset(each.name for each in fields(NetworkPolicy) if isinstance(each.default, bool))
_ITEMS = {
    each.name: int if each.name == "ports" else str
    for each in fields(NetworkPolicy)
    if each.name != "name" and each.name not in _FLAGS
}


@dataclass(frozen=True, slots=True)
class DenyList:
    """What every policy of this deployment denies, the ready ones too: domains, and networks as CIDRs."""

    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


def named_policy(name: str, defined: Mapping[str, NetworkPolicy]) -> NetworkPolicy:
    """The policy called `name`. Raises InputError (policy-unknown) naming those there are."""
    policy = defined.get(name) or READY.get(name)
    if policy is None:
        raise InputError("policy-unknown", f"no policy {name!r}; there are {', '.join(sorted({*READY, *defined}))}")
    return policy


def tenants_of_table(table: Mapping[str, Any], tenant: re.Pattern[str], source: str) -> dict[str, str]:
    """Tenant to the name of its policy. Raises InputError: settings-type, also for what cannot be a tenant's name."""
    for key, name in table.items():
        if not tenant.fullmatch(key) or not isinstance(name, str):
            raise InputError("settings-type", f"{source}: tenant_policies.{key}: expected a tenant and a policy's name")
    return dict(table)


def retention_of_table(table: Mapping[str, Any], source: str) -> Retention:
    """Days by subject. Raises InputError: settings-type, and what Retention refuses."""
    for subject, days in table.items():
        if isinstance(days, bool) or not isinstance(days, int | float):
            raise InputError("settings-type", f"{source}: retention_days.{subject}: expected a number of days")
    try:
        return Retention(dict(table))
    except InputError as error:
        raise InputError(error.rule, f"{source}: retention_days: {error.reason}") from error


def policy_of_table(name: str, table: Any, source: str) -> NetworkPolicy:
    """The policy of one table of the file `source`.

    Raises InputError: settings-unknown, settings-type, policy-redefined (a ready policy's name keeps its meaning; only
    `allowlist` waits for its hosts and networks), and what NetworkPolicy refuses.
    """
    where = f"{source}: policies.{name}"
    if name in READY and name != ALLOWLIST.name:
        raise InputError("policy-redefined", f"{where}: a ready policy keeps its meaning; choose another name")
    if not isinstance(table, dict):
        raise InputError("settings-type", f"{where}: expected a table")
    try:
        return NetworkPolicy(name=name, **{key: _value(key, value, where) for key, value in table.items()})
    except InputError as error:
        reason = error.reason if error.reason.startswith(where) else f"{source}: {error.reason}"
        raise InputError(error.rule, reason) from error


def _value(key: str, value: Any, where: str) -> Any:
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise InputError("settings-type", f"{where}.{key}: expected true or false")
        return value
    if key not in _ITEMS:
        raise InputError("settings-unknown", f"{where}: no key {key!r}{closest(key, {*_ITEMS, *_FLAGS})}")
    if not isinstance(value, list) or not all(type(item) is _ITEMS[key] for item in value):
        raise InputError("settings-type", f"{where}.{key}: expected a list of {_ITEMS[key].__name__}")
    return tuple(value)
