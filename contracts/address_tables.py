"""Which addresses a fetch may reach: our own tables, with the date of the registry beside each.

Never `ipaddress.is_*`: its tables change with the interpreter, and on the one we run it calls NAT64 and 6to4 forms
of the metadata address global. IPv4 is a list of what is denied; IPv6 allows 2000::/3 and denies the holes in it,
so that mapped, compatible, translated, unique-local, link-local and multicast forms fall to one rule.

Whole blocks are denied, also where the registry has a globally reachable carve-out: no media lives there.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPV4_REGISTRY_DATE = "2025-10-09"  # IANA IPv4 Special-Purpose Address Registry
IPV6_REGISTRY_DATE = "2025-10-09"  # IANA IPv6 Special-Purpose Address Registry

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV4_DENIED = {
    "0.0.0.0/8": "this network, RFC 791",
    "10.0.0.0/8": "private use, RFC 1918",
    "100.64.0.0/10": "shared address space of carriers, RFC 6598",
    "127.0.0.0/8": "loopback, RFC 1122",
    "169.254.0.0/16": "link local and cloud metadata, RFC 3927",
    "172.16.0.0/12": "private use, RFC 1918",
    "192.0.0.0/24": "IETF protocol assignments, RFC 6890",
    "192.0.2.0/24": "documentation, RFC 5737",
    "192.31.196.0/24": "AS112, RFC 7535",
    "192.52.193.0/24": "AMT, RFC 7450",
    "192.88.99.0/24": "deprecated 6to4 relay, RFC 7526",
    "192.168.0.0/16": "private use, RFC 1918",
    "192.175.48.0/24": "AS112, RFC 7534",
    "198.18.0.0/15": "benchmarking, RFC 2544",
    "198.51.100.0/24": "documentation, RFC 5737",
    "203.0.113.0/24": "documentation, RFC 5737",
    "224.0.0.0/4": "multicast, RFC 5771",
    "240.0.0.0/4": "reserved and broadcast, RFC 1112",
    "168.63.129.16/32": "Azure's fabric, public in the registry",
}
_IPV6_HOLES = {
    "2001::/23": "IETF protocol assignments with Teredo, RFC 2928 and 4380",
    "2001:db8::/32": "documentation, RFC 3849",
    "2002::/16": "6to4, which carries an IPv4 address, RFC 3056",
    "2620:4f:8000::/48": "AS112, RFC 7534",
    "3ffe::/16": "returned 6bone, RFC 3701",
    "3fff::/20": "documentation, RFC 9637",
}

IPV4_DENIED = tuple((IPv4Network(block), why) for block, why in _IPV4_DENIED.items())
IPV6_ALLOWED = IPv6Network("2000::/3")  # global unicast as assigned, RFC 4291 and IANA's allocation
IPV6_HOLES = tuple((IPv6Network(block), why) for block, why in _IPV6_HOLES.items())


def why_denied(address: Address) -> str | None:
    """Why `address` may not be reached, or None if it is public."""
    if isinstance(address, IPv4Address):
        return next((f"{address} is in {block} ({why})" for block, why in IPV4_DENIED if address in block), None)
    if address not in IPV6_ALLOWED:
        return f"{address} is outside {IPV6_ALLOWED}, the global unicast space"
    return next((f"{address} is in {block} ({why})" for block, why in IPV6_HOLES if address in block), None)


def tables_json() -> dict[str, object]:
    """The tables in the form that a policy's digest covers."""
    return {
        "ipv4_registry": IPV4_REGISTRY_DATE,
        "ipv4_denied": [str(block) for block, _ in IPV4_DENIED],
        "ipv6_registry": IPV6_REGISTRY_DATE,
        "ipv6_allowed": str(IPV6_ALLOWED),
        "ipv6_holes": [str(block) for block, _ in IPV6_HOLES],
    }
