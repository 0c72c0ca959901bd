"""The real fetcher where every address answers: what it contacts, seen on the wire, over all cases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from contracts.address_tables import IPV4_DENIED, IPV6_HOLES
from tests.lab.run_cases import CONTROL, NOT_ALLOWED, ROOT, is_forbidden

Row = Mapping[str, Any]
FILE = ROOT / "tests" / "vectors" / "ssrf.jsonl"
PUBLIC, METADATA = "93.184.216.34", "169.254.169.254"
PUBLISHED: list[Row] = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
OURS: list[Row] = [
    {
        "why": "rebinding: public, then loopback",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "dns_then": ["127.0.0.1"],
    },
    {
        "why": "rebinding between two hops",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "dns_then": [METADATA],
        "location": "/again",
        "rule": "address-denied",
    },
    {
        "why": "one bad answer of two",
        "url": "http://a.example.com/",
        "dns": [PUBLIC, "10.0.0.1"],
        "rule": "address-denied",
    },
    {
        "why": "one bad answer of the other family",
        "url": "https://a.example.com/",
        "dns": [PUBLIC, "::ffff:10.0.0.1"],
        "rule": "address-denied",
    },
    {
        "why": "forty answers",
        "url": "http://a.example.com/",
        "dns": [f"93.184.216.{last}" for last in range(40)],
        "rule": "dns-answers-over-limit",
    },
    {"why": "no answer", "url": "http://a.example.com/", "rule": "dns-no-answer"},
    {
        "why": "redirect to metadata by literal",
        "url": "https://a.example.com/",
        "dns": [PUBLIC],
        "location": f"https://{METADATA}/latest",
        "rule": "address-denied",
    },
    {
        "why": "redirect to metadata by name",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "dns_then": [METADATA],
        "location": "http://b.example.com/latest",
        "rule": "address-denied",
    },
    {
        "why": "redirect to metadata in IPv6 clothes",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "location": "http://[::ffff:a9fe:a9fe]/",
        "rule": "address-denied",
    },
    {
        "why": "https to http",
        "url": "https://a.example.com/",
        "dns": [PUBLIC],
        "location": "http://a.example.com/",
        "rule": "redirect-downgrade",
    },
    {
        "why": "redirect to another port",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "location": "http://a.example.com:22/",
        "rule": "port",
    },
    {
        "why": "the fourth redirect",
        "url": "http://a.example.com/",
        "dns": [PUBLIC],
        "location": ["/1", "/2", "/3", "/4"],
        "rule": "redirect-limit",
    },
    {
        "why": "three redirects",
        "url": "https://a.example.com/",
        "dns": [PUBLIC, "2606:4700::1111"],
        "location": ["/1", "//b.example.com/2", "https://[2606:4700::1]/3"],
    },
    {"why": "sixteen answers", "url": "http://a.example.com/", "dns": [f"93.184.216.{last}" for last in range(16)]},
    {"why": "IPv6 alone", "url": "https://a.example.com/", "dns": ["2606:4700::1111"]},
]
CASES = [*PUBLISHED, *({**case, "expect": "deny" if "rule" in case else "allow"} for case in OURS)]
CONTROLS: list[Row] = [
    {"url": f"http://{METADATA}/latest", "policy": CONTROL.name},
    {"url": "http://a.example.com:4711/", "dns": ["fd00:ec2::254"], "policy": CONTROL.name},
    {"url": "http://a.example.com/", "dns": [PUBLIC], "location": "https://127.0.0.1/", "policy": CONTROL.name},
]


def lab(folder: Path, cases: Sequence[Row], *options: str) -> list[Row]:
    """Run the cases in a private network; a row for each."""
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
    command = [sys.executable, "tests/lab/run_cases.py", str(file), "--policy", "public-web", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    if ended.returncode == NOT_ALLOWED:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    rows: list[Row] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["url"] for row in rows] == [case["url"] for case in cases]
    return rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What came of each case."""
    return lab(tmp_path_factory.mktemp("lab"), CASES)


def test_nothing_forbidden_is_contacted(rows: list[Row]) -> None:
    """Over all cases: not one connection to a forbidden address, on whatever port, and not one byte."""
    assert [(row["url"], row["forbidden"]) for row in rows if row["forbidden"]] == []
    assert sum(row["bytes"] for row in rows) == 0


def test_what_is_refused_before_a_redirect_contacts_nobody(rows: list[Row]) -> None:
    """A denied URL or answer costs no packet to anybody, forbidden or not."""
    contacted = [
        (row["url"], row["dialled"])
        for case, row in zip(CASES, rows, strict=True)
        if case["expect"] == "deny" and "location" not in case and row["dialled"]
    ]
    assert contacted == []


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case['why']}: {case['url']}" for case in CASES])
def test_case_ends_by_its_rule(rows: list[Row], number: int) -> None:
    """Each denial is by the case's rule; what is allowed is had, from a vetted address, with a place at most a hop."""
    case, row = CASES[number], rows[number]
    assert (row["verdict"], row["rule"]) == (case["expect"], case.get("rule", "public-web")), row
    if case["expect"] == "allow":
        location = case.get("location", [])
        hops = 1 + (1 if isinstance(location, str) else len(location))
        assert row["status"] == 200
        assert 1 <= len(row["dialled"]) <= hops
        if "dns" in case:
            assert row["dialled"][0].rpartition(":")[0].strip("[]") in case["dns"]


def test_the_lab_sees_what_a_careless_fetcher_would_do(tmp_path: Path) -> None:
    """The same fetcher under a policy that allows everything is seen at metadata, on any port, and after a redirect."""
    metadata, unserved, redirected = lab(tmp_path, CONTROLS)
    assert (metadata["verdict"], metadata["forbidden"]) == ("allow", [f"{METADATA}:80"])
    assert metadata["bytes"] > len("GET /latest HTTP/1.1")
    assert (unserved["rule"], unserved["forbidden"]) == ("connect", ["[fd00:ec2::254]:4711"])
    assert redirected["dialled"] == [f"{PUBLIC}:80", "127.0.0.1:443"]
    assert (redirected["verdict"], redirected["forbidden"]) == ("allow", ["127.0.0.1:443"])


def test_the_command_ends_as_the_fetcher_does(tmp_path: Path) -> None:
    """`mosaic fetch` resolves, dials, refuses and acquires in the lab as the fetcher does."""
    chosen = [case for case in CASES if case["why"] in ("forty answers", "redirect to metadata by name", "IPv6 alone")]
    for case, row in zip(chosen, lab(tmp_path, chosen, "--command"), strict=True):
        assert (row["verdict"], row["rule"]) == (case["expect"], case.get("rule", "public-web"))
        assert row["forbidden"] == []


def test_a_resolver_file_that_is_replaced_is_seen(tmp_path: Path) -> None:
    """DHCP puts another file in the place of the old, which is out of a confined child's sight: it is replaced, too."""
    ended = subprocess.run([sys.executable, "tests/lab/replace_resolver.py"], cwd=ROOT, capture_output=True, text=True)
    if ended.returncode == NOT_ALLOWED:
        pytest.skip(ended.stderr)
    assert ended.stdout.split() == ["dns-unavailable", "public-web"], ended.stderr


def test_the_labs_own_idea_of_forbidden_covers_our_tables() -> None:
    """The lab judges by the registry's list; all that our tables deny as registered is forbidden to it too."""
    for block in (*IPV4_DENIED, *IPV6_HOLES):
        if block.since and block.network != ip_network("3ffe::/16"):
            assert is_forbidden(block.network.network_address)
            assert is_forbidden(block.network.broadcast_address)
