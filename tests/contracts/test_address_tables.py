"""The address tables: the registry whole, and every border of every block."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.address_tables import IPV4_DENIED, IPV6_ALLOWED, IPV6_HOLES, Block, Network, why_denied

REGISTRY = [
    line.split("\t")
    for line in (Path(__file__).parents[1] / "vectors" / "iana_special_purpose.tsv").read_text("ascii").splitlines()
]
BLOCKS = (*IPV4_DENIED, *IPV6_HOLES)
NEIGHBOURS = {  # a border that another denied block shares, so what lies beyond it is denied too
    ("224.0.0.0/4", 1),
    ("240.0.0.0/4", -1),
    ("3ffe::/16", 1),
    ("3fff::/20", -1),
}


def ends(network: Network) -> tuple[int, int]:
    """The first and the last address as numbers."""
    return int(network.network_address), int(network.broadcast_address)


def address(network: Network, number: int) -> str | None:
    """Why the address of that number, in the family of `network`, is denied."""
    return why_denied(type(network.network_address)(number))


@pytest.mark.parametrize(("block", "month"), REGISTRY, ids=[f"{block} {month}" for block, month in REGISTRY])
def test_every_registered_block_is_denied(block: str, month: str) -> None:
    """The first, middle and last address of each entry of IANA's registries; equal blocks have the registry's month."""
    network = ip_network(block)
    first, last = ends(network)
    for number in (first, (first + last) // 2, last):
        assert address(network, number) is not None
    assert [each.since for each in BLOCKS if each.network == network] in ([], [month])


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block.network))
def test_borders_of_a_denied_block(block: Block) -> None:
    """The first and the last address are denied for the block's reason; one before and one after are public."""
    first, last = ends(block.network)
    for number in (first, last):
        assert block.why in str(address(block.network, number))
    for side, number in ((-1, first - 1), (1, last + 1)):
        if (str(block.network), side) in NEIGHBOURS or not 0 <= number < 1 << block.network.max_prefixlen:
            continue
        assert address(block.network, number) is None, side


def test_borders_of_global_unicast() -> None:
    """Of IPv6 the first and last address of 2000::/3 are public, their outer neighbours are not."""
    first, last = ends(IPV6_ALLOWED)
    assert [address(IPV6_ALLOWED, number) is None for number in (first - 1, first, last, last + 1)] == [
        False,
        True,
        True,
        False,
    ]


def test_every_denied_block_says_why_and_since_when() -> None:
    """A reason for each; a month for each that a registry or an RFC made special, none for a cloud's own."""
    assert all(block.why for block in BLOCKS)
    assert {str(block.network) for block in BLOCKS if not block.since} == {
        "168.63.129.16/32",
        "192.80.8.124/32",
        "161.26.0.0/16",
        "166.8.0.0/14",
    }


@given(number=st.integers(0, (1 << 32) - 1))
def test_no_form_carries_an_ipv4_address_past_the_table(number: int) -> None:
    """Mapped, compatible, translated, NAT64, 6to4, Teredo and ISATAP forms are denied, whatever they carry."""
    for prefix, shift in (
        ("::", 0),
        ("::ffff:0:0", 0),
        ("::ffff:0:0:0", 0),
        ("64:ff9b::", 0),
        ("64:ff9b:1::", 0),
        ("2002::", 80),
        ("2001::", 0),
        ("2606:4700::5efe:0:0", 0),
        ("2606:4700::200:5efe:0:0", 0),
    ):
        carried = IPv6Address(int(IPv6Address(prefix)) | number << shift)
        assert why_denied(carried) is not None, carried


@given(number=st.integers(0, (1 << 64) - 1))
def test_other_interfaces_of_a_public_network_are_public(number: int) -> None:
    """Only the two ISATAP identifiers are denied within a public network."""
    public = IPv6Address(int(IPv6Address("2606:4700::")) | number)
    assert (why_denied(public) is None) == (number >> 32 not in (0x5EFE, 0x2005EFE))
