"""What a fetch may reach: named rules over one hop (its URL and the addresses its host resolved to).

Every hop of a fetch goes through `check_url` and `check_addresses`, a redirect through `check_redirect` first; each
raises PolicyDenied with the rule that decided. `contracts.policy_verdict` runs the same rules over given answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urljoin

from contracts.address_tables import Address, Network, tables_json, why_denied
from contracts.digest import Digest, canonical_digest
from contracts.errors import InputError, PolicyDenied
from contracts.limits import Limits
from contracts.url_grammar import (
    AUTHORITY_RULES,
    DEFAULT_PORTS,
    HOST_RULES,
    TAIL_RULES,
    TEXT_RULES,
    Target,
    parse_url,
    read_domain,
)

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_WEB_PORTS = frozenset(DEFAULT_PORTS.values())
_DNS_ANSWERS = Limits().dns_answers


@lru_cache(maxsize=256)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise InputError("policy-network", f"expected CIDR networks, got {', '.join(texts)}") from error


@lru_cache(maxsize=256)
def _domains(texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(read_domain(text.removeprefix(".")) for text in texts)
    except PolicyDenied as denied:
        reason = (
            f"expected domains such as example.org, got {', '.join(texts)} ({denied.reason}); addresses are networks"
        )
        raise InputError("policy-host", reason) from denied


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """A named policy. `ports` None means any. Hosts are domains, which cover what is beneath them; networks are CIDRs.

    Where `allowed_hosts` or `allowed_networks` name any, a host must be one of them and every address in one of them;
    a policy with `allowlist` in its name that names neither refuses everything. The denied ones and the address tables
    go before. `unsafe_allow_networks` pass in spite of the tables: a policy with such, or with other ports than 80 and
    443, must say `unsafe` in its name. `record_queries` keeps the query strings of URLs in records, `keep_mismatched`
    the bytes that do not have the digest that was expected. Raises InputError for a policy that is not this.
    """

    name: str
    schemes: tuple[str, ...] = ("http", "https")
    ports: tuple[int, ...] | None = (80, 443)
    allowed_hosts: tuple[str, ...] = ()
    allowed_networks: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    deny_networks: tuple[str, ...] = ()
    unsafe_allow_networks: tuple[str, ...] = ()
    record_queries: bool = False
    keep_mismatched: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError("policy-name", f"expected a kebab-case name, got {self.name!r}")
        if not self.schemes or not set(self.schemes) <= set(DEFAULT_PORTS):
            raise InputError("policy-schemes", f"policy {self.name}: expected http and https, got {self.schemes}")
        for networks in (self.allowed_networks, self.deny_networks, self.unsafe_allow_networks):
            _networks(networks)
        for hosts in (self.allowed_hosts, self.deny_hosts):
            _domains(hosts)
        wide = self.ports is None or not _WEB_PORTS.issuperset(self.ports)
        if (wide or self.unsafe_allow_networks) and not self.is_unsafe:
            raise InputError(
                "policy-unsafe-name",
                f"policy {self.name}: other ports than 80 and 443, and addresses that are not public, "
                "need the word unsafe in its name",
            )

    @property
    def is_unsafe(self) -> bool:
        """Whether the policy may reach more than the public web; to be logged at every use."""
        return "unsafe" in self.name.split("-")

    @property
    def allows_nothing(self) -> bool:
        """Whether this is an allowlist on which nothing stands yet."""
        return "allowlist" in self.name.split("-") and not (self.allowed_hosts or self.allowed_networks)

    def denying(self, hosts: Iterable[str], networks: Iterable[str]) -> NetworkPolicy:
        """This policy with more denied hosts and networks; its digest shows them."""
        return replace(
            self,
            deny_hosts=tuple(dict.fromkeys((*self.deny_hosts, *hosts))),
            deny_networks=tuple(dict.fromkeys((*self.deny_networks, *networks))),
        )

    def to_json(self) -> dict[str, Any]:
        """The form that is digested and that crosses to the fetcher."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NetworkPolicy:
        """The inverse of `to_json`."""
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
        return cls(**values)

    def digest(self) -> Digest:
        """The identity of the policy and of the address tables it stands on."""
        return _identity(self)


@lru_cache(maxsize=256)
def _identity(policy: NetworkPolicy) -> Digest:
    """Every fetch's record names it, and a serialised table of addresses is more work than the rest of the record."""
    return canonical_digest({"policy": policy.to_json(), "tables": tables_json()})


PUBLIC_WEB = NetworkPolicy("public-web")
PUBLIC_HTTPS = NetworkPolicy("public-https", schemes=("https",), ports=(443,))
ALLOWLIST = NetworkPolicy("allowlist")


def _scheme_allowed(policy: NetworkPolicy, target: Target) -> str | None:
    if target.scheme in policy.schemes:
        return None
    return f"expected {' or '.join(policy.schemes)}, got {target.scheme}"


def _port_allowed(policy: NetworkPolicy, target: Target) -> str | None:
    if policy.ports is None or target.port in policy.ports:
        return None
    return f"expected port {' or '.join(map(str, policy.ports))}, got {target.port}"


def _host_not_denied(policy: NetworkPolicy, target: Target) -> str | None:
    if any(_covers(domain, target.host) for domain in _domains(policy.deny_hosts)):
        return f"{target.host} is of a domain that policy {policy.name} denies"
    return None


def _host_allowed(policy: NetworkPolicy, target: Target) -> str | None:
    if policy.allows_nothing:
        return f"policy {policy.name} has no hosts and no networks yet, so it allows nothing"
    domains = _domains(policy.allowed_hosts)
    if not domains or any(_covers(domain, target.host) for domain in domains):
        return None
    return f"{target.host} is not among the {len(domains)} hosts that policy {policy.name} allows"


def _covers(domain: str, host: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _not_denied_by_operator(policy: NetworkPolicy, address: Address) -> str | None:
    # A mapped address is dialled as the IPv4 address in it, and an unsafe policy may let its form through.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    for network in _networks(policy.deny_networks):
        if _contains(network, address) or (mapped is not None and _contains(network, mapped)):
            return f"{address} is in {network}, which policy {policy.name} denies"
    return None


def _public(policy: NetworkPolicy, address: Address) -> str | None:
    if any(_contains(network, address) for network in _networks(policy.unsafe_allow_networks)):
        return None
    return why_denied(address)


def _address_allowed(policy: NetworkPolicy, address: Address) -> str | None:
    networks = _networks(policy.allowed_networks)
    if not networks or any(_contains(network, address) for network in networks):
        return None
    return f"{address} is in none of the {len(networks)} networks that policy {policy.name} allows"


def _contains(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network


TARGET_RULES: tuple[tuple[str, Callable[[NetworkPolicy, Target], str | None]], ...] = (
    ("scheme", _scheme_allowed),
    ("port", _port_allowed),
    ("host-denied-by-operator", _host_not_denied),
    ("host-not-allowed", _host_allowed),
)
ADDRESS_RULES: tuple[tuple[str, Callable[[NetworkPolicy, Address], str | None]], ...] = (
    ("address-denied-by-operator", _not_denied_by_operator),
    ("address-denied", _public),
    ("address-not-allowed", _address_allowed),
)
RULES = tuple(
    name
    for table in (TEXT_RULES, AUTHORITY_RULES, TAIL_RULES, HOST_RULES, TARGET_RULES, ADDRESS_RULES)
    for name, _ in table
)
"""The names of the rules in the tables, in the order in which they are asked. Between them, what cannot be read at all
is refused by `url-authority`, `url-port-form`, `host-idna`, `host-ipv6-form`, `host-numeric-form`,
`parser-disagreement` and `address-form`; a resolution as a whole by `dns-no-answer` and `dns-answers-over-limit`."""


def check_url(policy: NetworkPolicy, url: str) -> Target:
    """Read `url` and put it through the rules; an address in it is vetted here. Raises PolicyDenied."""
    target = parse_url(url)
    for name, rule in TARGET_RULES:
        reason = rule(policy, target)
        if reason is not None:
            raise PolicyDenied(name, reason)
    if target.literal is not None:
        check_addresses(policy, target.host, [target.literal])
    return target


def check_addresses(
    policy: NetworkPolicy, host: str, addresses: Sequence[str], *, max_answers: int = _DNS_ANSWERS
) -> tuple[str, ...]:
    """Vet everything that `host` resolved to; returns the distinct addresses in order, in canonical form.

    One bad answer refuses all: a name that points inside and outside is a trick. Raises PolicyDenied.
    """
    distinct = tuple(dict.fromkeys(addresses))
    if not distinct:
        raise PolicyDenied("dns-no-answer", f"{host} has no address")
    if len(distinct) > max_answers:
        raise PolicyDenied("dns-answers-over-limit", f"{host}: expected at most {max_answers}, got {len(distinct)}")
    vetted = []
    for text in distinct:
        address = _read_address(host, text)
        for name, rule in ADDRESS_RULES:
            reason = rule(policy, address)
            if reason is not None:
                raise PolicyDenied(name, reason if host == text else f"{host}: {reason}")
        vetted.append(str(address))
    return tuple(vetted)


def _read_address(host: str, text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise PolicyDenied("address-form", f"{host}: an answer is not an address") from error
    if address.version == 6 and address.scope_id is not None:
        raise PolicyDenied("address-form", f"{host}: an answer has a scope, so it is of this link")
    return address


def check_redirect(policy: NetworkPolicy, source: Target, locations: Sequence[bytes]) -> Target:
    """Where a redirect from `source` leads, by all values of its Location headers. Raises PolicyDenied.

    A reference is taken by RFC 3986 §5.2; from https to http is refused.
    """
    if len(locations) != 1:
        raise PolicyDenied("redirect-location-count", f"expected one Location header, got {len(locations)}")
    try:
        location = locations[0].decode("ascii")
    except UnicodeDecodeError as error:
        raise PolicyDenied("redirect-location-form", "the Location header is not ASCII") from error
    target = check_url(policy, _resolve_reference(source, location))
    if source.scheme == "https" and target.scheme == "http":
        raise PolicyDenied("redirect-downgrade", f"from https://{source.host} to http://{target.host}")
    return target


def _resolve_reference(source: Target, location: str) -> str:
    if not location or "\\" in location or any(ord(character) <= 0x20 for character in location):
        raise PolicyDenied("redirect-location-form", "the Location header is empty or has a space or a backslash")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        return location  # urljoin would take http:name for a relative reference
    if location.startswith("//"):
        return f"{source.scheme}:{location}"
    return urljoin(source.url, location)
