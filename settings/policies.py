"""From a policy's name to the network policy: the ready ones, and those that the settings file defines."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network

from contracts.errors import InputError
from contracts.network_policy import PUBLIC_HTTPS, PUBLIC_WEB, NetworkPolicy
from settings.policy_rows import PolicyRow

_READY = {policy.name: policy for policy in (PUBLIC_WEB, PUBLIC_HTTPS)}


def network_policy(name: str, rows: Mapping[str, PolicyRow]) -> NetworkPolicy:
    """The policy called `name`. A settings file cannot give a ready policy's name another meaning.

    Raises InputError: policy-unknown, policy-redefined, and what NetworkPolicy refuses.
    """
    if redefined := sorted(_READY.keys() & rows.keys()):
        raise InputError(
            "policy-redefined", f"{', '.join(redefined)}: a ready policy keeps its meaning; choose another name"
        )
    if name in _READY:
        return _READY[name]
    if name not in rows:
        raise InputError("policy-unknown", f"no policy {name!r}; there are {', '.join(sorted({*_READY, *rows}))}")
    row = rows[name]
    return NetworkPolicy(
        name=name,
        schemes=frozenset(row.schemes),
        ports=frozenset(row.ports),
        allowed_hosts=row.allowed_hosts,
        deny_networks=tuple(ip_network(network) for network in row.deny_networks),
        unsafe_allow_networks=tuple(ip_network(network) for network in row.unsafe_allow_networks),
    )
