"""Which addresses a fetch may reach: our own tables, with the registry's dates beside them.

Never `ipaddress.is_*`: its tables change with the interpreter, and on the one we run it calls NAT64 and 6to4 forms
of the metadata address global. IPv4 is a list of what is denied; IPv6 allows 2000::/3 and denies the holes in it,
so that mapped, compatible, translated, unique-local, link-local and multicast forms fall to one rule.

Whole blocks are denied, also where the registry has a globally reachable carve-out: no media lives there. A cloud's
own services on addresses that the registry calls public are denied beside them: who asks from inside that cloud would
reach them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPV4_REGISTRY_DATE = "2025-10-09"  # IANA IPv4 Special-Purpose Address Registry, last updated
IPV6_REGISTRY_DATE = "2025-10-09"  # IANA IPv6 Special-Purpose Address Registry, last updated

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Block:
    """A denied block; `since` is the month in which the registry allocated it, or the RFC's where the block is in no
    special-purpose registry; empty where nobody but the cloud says so."""

    network: Network
    why: str
    since: str


_IPV4_DENIED = (
    ("0.0.0.0/8", "this network, RFC 791", "1981-09"),
    ("10.0.0.0/8", "private use, RFC 1918", "1996-02"),
    ("100.64.0.0/10", "shared address space of carriers, RFC 6598", "2012-04"),
    ("127.0.0.0/8", "loopback, RFC 1122", "1981-09"),
    ("169.254.0.0/16", "link local and cloud metadata, RFC 3927", "2005-05"),
    ("172.16.0.0/12", "private use, RFC 1918", "1996-02"),
    ("192.0.0.0/24", "IETF protocol assignments, RFC 6890", "2010-01"),
    ("192.0.2.0/24", "documentation, RFC 5737", "2010-01"),
    ("192.31.196.0/24", "AS112, RFC 7535", "2014-12"),
    ("192.52.193.0/24", "AMT, RFC 7450", "2014-12"),
    ("192.88.99.0/24", "deprecated 6to4 relay, RFC 7526", "2001-06"),
    ("192.168.0.0/16", "private use, RFC 1918", "1996-02"),
    ("192.175.48.0/24", "AS112, RFC 7534", "1996-01"),
    ("198.18.0.0/15", "benchmarking, RFC 2544", "1999-03"),
    ("198.51.100.0/24", "documentation, RFC 5737", "2010-01"),
    ("203.0.113.0/24", "documentation, RFC 5737", "2010-01"),
    ("224.0.0.0/4", "multicast, RFC 1112 and 5771", "1989-08"),
    ("240.0.0.0/4", "reserved and broadcast, RFC 1112", "1989-08"),
    ("168.63.129.16/32", "Azure's fabric: DNS, DHCP and the guest agent's host", ""),
    ("192.80.8.124/32", "Equinix Metal's metadata", ""),
    ("161.26.0.0/16", "IBM Cloud's infrastructure services", ""),
    ("166.8.0.0/14", "IBM Cloud's private service endpoints", ""),
)
_IPV6_HOLES = (
    ("2001::/23", "IETF protocol assignments with Teredo, RFC 2928 and 4380", "2000-09"),
    ("2001:db8::/32", "documentation, RFC 3849", "2004-07"),
    ("2002::/16", "6to4, which carries an IPv4 address, RFC 3056", "2001-02"),
    ("2620:4f:8000::/48", "AS112, RFC 7534", "2011-05"),
    ("3ffe::/16", "returned 6bone, RFC 3701", "2004-03"),
    ("3fff::/20", "documentation, RFC 9637", "2024-07"),
)

IPV4_DENIED = tuple(Block(IPv4Network(block), why, since) for block, why, since in _IPV4_DENIED)
IPV6_ALLOWED = IPv6Network("2000::/3")  # global unicast as assigned, RFC 4291 and IANA's allocation
IPV6_HOLES = tuple(Block(IPv6Network(block), why, since) for block, why, since in _IPV6_HOLES)


_ISATAP = 0x5EFE << 32  # RFC 5214 §6.1: the interface identifier 0000:5efe or 0200:5efe, then an IPv4 address
_ISATAP_MASK = 0xFDFFFFFF << 32  # without the bit that says whether that address is a global one


def why_denied(address: Address) -> str | None:
    """Why `address` may not be reached, or None if it is public."""
    if isinstance(address, IPv4Address):
        return _first(IPV4_DENIED, address)
    if address not in IPV6_ALLOWED:
        return f"{address} is outside {IPV6_ALLOWED}, the global unicast space"
    if int(address) & _ISATAP_MASK == _ISATAP:
        return f"{address} carries an IPv4 address (ISATAP, RFC 5214)"
    return _first(IPV6_HOLES, address)


def _first(blocks: Iterable[Block], address: Address) -> str | None:
    found = next((block for block in blocks if address in block.network), None)
    return None if found is None else f"{address} is in {found.network} ({found.why})"


def tables_json() -> dict[str, object]:
    """The tables in the form that a policy's digest covers."""
    return {
        "ipv4_registry": IPV4_REGISTRY_DATE,
        "ipv4_denied": [str(block.network) for block in IPV4_DENIED],
        "ipv6_registry": IPV6_REGISTRY_DATE,
        "ipv6_allowed": str(IPV6_ALLOWED),
        "ipv6_holes": [str(block.network) for block in IPV6_HOLES],
        "ipv6_denied_interfaces": ["isatap"],
    }
