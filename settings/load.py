"""Loading: defaults, then mosaic.toml, then MOSAIC_* variables, then `--set`; the later source wins.

Strict: a name that does not exist is refused with the closest one that does, wherever it stands, so that a mistyped
bound is never a bound that is silently not in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from contracts.errors import InputError
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_WEB, NetworkPolicy
from settings.closest import closest
from settings.database import DATABASE_READERS, database_url
from settings.environment import process_environment
from settings.object_storage import OBJECT_READERS, one_of, secret
from settings.policies import DenyList, named_policy, policy_of_table, retention_of_table, tenants_of_table
from settings.sources import FILE_VARIABLE, STACK_STORAGE, from_environment, from_file
from settings.stack_ports import StackPorts, port
from settings.values import DEFAULT_HOME, REPOSITORY, Settings

FILE_NAME = "mosaic.toml"
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_URL = re.compile(r"https?://[^/?#\s]+[^\s]*")
_LIMIT_TYPES = {name: type(value) for name, value in ((each.name, each.default) for each in fields(Limits))}


def load(
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """The settings in force.

    `overrides` are `--set NAME=VALUE`; `environment` is this process's unless given; `file` is MOSAIC_SETTINGS or
    mosaic.toml in the repository unless given. Raises InputError: settings-unknown, settings-type, settings-file,
    settings-secret, policy-unknown, policy-redefined, and what NetworkPolicy refuses.
    """
    environment = process_environment() if environment is None else environment
    named = environment.get(FILE_VARIABLE)
    path = file or (Path(named) if named else REPOSITORY / FILE_NAME)
    values: dict[str, Any] = {}
    provenance: dict[str, str] = {}
    if file or named or path.exists():
        for name, value in from_file(path).items():
            _take(values, provenance, name, value, str(path), path.resolve().parent)
    for name, (variable, text) in from_environment(environment).items():
        _take(values, provenance, name, text, variable, Path.cwd())
    for name, text in (overrides or {}).items():
        if name in _SECRETS:
            raise InputError("settings-secret", f"--set: {name}: a command line is no place for it; use a variable")
        _take(values, provenance, name, text, "--set", Path.cwd())
    # Resolved once: the worker opens staged files beneath the real root, so requests must name them by it.
    values["home"] = Path(values.get("home", DEFAULT_HOME)).resolve()
    _take_storage(values, provenance)
    limits, deny, ports = (_table(values, table) for table in ("limits.", "deny.", "ports."))
    values |= {"limits": Limits().changed(limits), "deny": DenyList(**deny), "ports": StackPorts(**ports)}
    settings = Settings(**values, provenance=provenance)
    for name in (settings.policy, *settings.tenant_policies.values()):
        named_policy(name, settings.policies)  # a policy that does not exist must not wait for the first fetch
    return settings


def _take_storage(values: dict[str, Any], provenance: dict[str, str]) -> None:
    """What `mosaic up --storage stack` left in the home: where its ledger and its blobs are, unless that is set."""
    path = values["home"] / STACK_STORAGE
    if not path.exists():
        return
    found = from_file(path)
    if any(name in values for name in found if name != "database_url"):  # keys belong to their endpoint
        found = {name: value for name, value in found.items() if name == "database_url"}
    for name, value in found.items():
        if name not in values:
            _take(values, provenance, name, value, str(path), path.parent)


def _table(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Take the names with `prefix` out of `values`, without it."""
    return {name.removeprefix(prefix): values.pop(name) for name in list(values) if name.startswith(prefix)}


def _take(values: dict[str, Any], provenance: dict[str, str], name: str, value: Any, source: str, folder: Path) -> None:
    """Read one value of `source` and put it in force; a relative path is relative to `folder`."""
    if name == "policies" and isinstance(value, dict):
        values[name] = {policy: policy_of_table(policy, table, source) for policy, table in value.items()}
        provenance.update(
            dict.fromkeys(
                (f"policies.{policy}.{each.name}" for policy in value for each in fields(NetworkPolicy)), source
            )
        )
        return
    if name == "retention_days" and isinstance(value, dict):
        values[name] = retention_of_table(value, source)
        provenance.update(dict.fromkeys((f"{name}.{subject}" for subject in value), source))
        return
    if name == "tenant_policies" and isinstance(value, dict):
        values[name] = tenants_of_table(value, _SLUG, source)
        provenance.update(dict.fromkeys((f"{name}.{tenant}" for tenant in value), source))
        return
    reader = _READERS.get(name)
    if reader is None:
        raise InputError("settings-unknown", f"{source}: no setting {name!r}{closest(name, _READERS)}")
    try:
        read = reader(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError("settings-type", f"{source}: {name}: {error}") from error
    except InputError as error:
        raise InputError(error.rule, f"{source}: {name}: {error.reason}") from error
    values[name] = (folder / read) if isinstance(read, Path) else read
    provenance[name] = source


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"expected {what}")
        return value

    return read


def _path(value: Any) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("expected a path")
    return Path(value).expanduser()


def _number(kind: type, least: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("expected a number")
        if isinstance(value, float) and kind is int:
            raise ValueError("expected a whole number")
        try:
            number = kind(value)
        except ValueError:
            raise ValueError(f"expected a {'whole ' if kind is int else ''}number, got {value!r}") from None
        if not least <= number < float("inf"):
            raise ValueError(f"expected at least {least}, got {number}")
        return number

    return read


def _texts(value: Any) -> tuple[str, ...]:
    """A list, or in a variable its items with commas between them."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("expected a list of texts")
    return tuple(item.strip() for item in items if item.strip())


def _denied_hosts(value: Any) -> tuple[str, ...]:
    return PUBLIC_WEB.denying(_texts(value), ()).deny_hosts


def _denied_networks(value: Any) -> tuple[str, ...]:
    return PUBLIC_WEB.denying((), _texts(value)).deny_networks


def _switch(value: Any) -> bool:
    """Only the words themselves: what lifts a protection must not be switched on by a `1` or a `yes` of another use."""
    if value is True or value == "true":
        return True
    if value is False or value == "false":
        return False
    raise ValueError("expected true or false")


_WORKER_URL = _matching(_URL, "an http or https URL")
_READERS: dict[str, Callable[[Any], Any]] = {
    "home": _path,
    "tenant": _matching(_SLUG, "1 to 32 of a-z, 0-9 and -, not beginning with -"),
    "policy": _matching(_NAME, "a policy's name"),
    "release": _matching(_NAME, "a release's name"),
    "worker_url": _WORKER_URL,
    "worker_slots": _number(int, 1),
    "prefect_api_url": _WORKER_URL,
    "prefect_api_auth_string": secret,
    "reports_url": _WORKER_URL,
    "fetch_concurrency": _number(int, 1),
    "fetch_per_host": _number(int, 1),
    "fetch_tries": _number(int, 1),
    "fetch_dedupe": _switch,
    "unsafe_isolation": _switch,
    "strict_decoders": _switch,
    "decode_workers": _number(int, 1),
    "lookahead_questions": _number(int, 1),
    **OBJECT_READERS,
    **DATABASE_READERS,
    "s3_store_per_tenant": _switch,
    "s3_store_lock_days": _number(int, 0),
    "unsafe_s3_store": _switch,
    "staging_layout": one_of("tenant", "flat"),
    "staging_mode": one_of("0440", "0444"),
    "staging_group": _number(int, 0),
    "staging_cache_bytes": _number(int, 0),
    **{f"ports.{each.name}": port for each in fields(StackPorts)},
    "deny.hosts": _denied_hosts,
    "deny.networks": _denied_networks,
    **{f"limits.{name}": _number(kind, 0) for name, kind in _LIMIT_TYPES.items()},
}
_SECRETS = frozenset(name for name, reader in _READERS.items() if reader in (secret, database_url))
"""Settings that the command line does not take: every process of the host can read it."""
