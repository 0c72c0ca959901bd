"""The network policy, by published cases and by laws."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InputError, PolicyDenied
from contracts.network_policy import (
    PUBLIC_HTTPS,
    PUBLIC_WEB,
    NetworkPolicy,
    check_addresses,
    check_redirect,
    check_url,
)
from contracts.policy_verdict import judge, judge_case
from contracts.url_grammar import DEFAULT_PORTS, RESERVED_NAMES

CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "vectors" / "ssrf.jsonl").read_text("utf-8").splitlines()
]
LOOPBACK = NetworkPolicy("demo-unsafe-loopback", ("http",), None, unsafe_allow_networks=("127.0.0.1/32",))
PUBLIC = ["93.184.216.34"]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['family']}: {case['why']}: {case['url']}" for case in CASES])
def test_published_case(case: dict[str, object]) -> None:
    """Every hostile case is denied by the rule that is about it, every honest one allowed; each names its source."""
    verdict = judge_case(PUBLIC_WEB, case)
    assert (verdict.verdict, verdict.rule) == (case["expect"], case.get("rule", PUBLIC_WEB.name)), verdict
    assert ("rule" in case) == (case["expect"] == "deny")
    assert case["source"]


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("", "url-length"),
        ("http://example.com/" + "a" * 4096, "url-length"),
        ("http://example.com/a b", "url-characters"),
        ("http://example.com/\r\nHost: x", "url-characters"),
        ("http://example.com/#\udcff", "url-characters"),
        ("http://example.com\\@10.0.0.1/", "url-backslash"),
        ("example.com/a", "url-absolute"),
        ("ftp://example.com/", "scheme"),
        ("http:example.com", "url-slashes"),
        ("http:///a", "url-host-missing"),
        ("http://user:secret@example.com/", "url-userinfo"),
        ("http://exa%6dple.com/", "url-host-percent"),
        ("http://example.com./", "host-trailing-dot"),
        ("http://exam!ple.com/", "host-labels"),
        ("http://a..example.com/", "host-labels"),
        ("http://-a.example.com/", "host-labels"),
        ("http://intranet/", "host-single-label"),
        ("http://printer.local/", "host-reserved"),
        ("http://\uff45xample.com/", "host-idna"),
        ("http://example\u3002com/", "host-idna"),
        ("http://example.com/\u00e9", "url-non-ascii"),
        ("http://0x7f.1/", "host-numeric-form"),
        ("http://[::1/", "url-authority"),
        ("http://[example.com]/", "host-ipv6-form"),
        ("http://example.com:/", "url-port-form"),
        ("http://example.com:080/", "url-port-form"),
        ("http://example.com:65536/", "url-port-form"),
        ("http://example.com:8080/", "port"),
        ("http://[64:ff9b::a9fe:a9fe]/", "address-denied"),
    ],
)
def test_url_is_denied_by_its_rule(url: str, rule: str) -> None:
    """A refused form is refused by the rule that is about it."""
    with pytest.raises(PolicyDenied) as denied:
        check_url(PUBLIC_WEB, url)
    assert denied.value.rule == rule


def test_a_reason_never_holds_a_query_or_a_password() -> None:
    """What a refusal says can be shown to anybody."""
    for url in ("http://u:secret@example.com/?token=secret", "http://10.0.0.1/?token=secret", "gopher://x/?secret"):
        verdict = judge(PUBLIC_WEB, url, {})
        assert verdict.verdict == "deny"
        assert "secret" not in verdict.reason


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("http://example.com:80?a=1#f", "http://example.com/?a=1"),
        ("https://example.com:80/a", "https://example.com:80/a"),
        ("https://b\u00fccher.example.com/", "https://xn--bcher-kva.example.com/"),
        ("https://[2606:4700:4700:0:0:0:0:1111]/x", "https://[2606:4700:4700::1111]/x"),
    ],
)
def test_what_passes_is_written_from_its_parts(url: str, written: str) -> None:
    """Only the text written from the parts is requested."""
    assert check_url(PUBLIC_WEB, url).url == written


@pytest.mark.parametrize(
    ("addresses", "rule"),
    [
        ([], "dns-no-answer"),
        ([f"93.184.216.{last}" for last in range(17)], "dns-answers-over-limit"),
        (["93.184.216.34", "10.0.0.1"], "address-denied"),
        (["::ffff:93.184.216.34"], "address-denied"),
        (["fe80::1%eth0"], "address-form"),
        (["2606:4700::1%eth0"], "address-form"),
        (["not-an-address"], "address-form"),
    ],
)
def test_answers_are_denied_by_their_rule(addresses: list[str], rule: str) -> None:
    """One bad answer refuses them all."""
    with pytest.raises(PolicyDenied) as denied:
        check_addresses(PUBLIC_WEB, "media.example.com", addresses)
    assert denied.value.rule == rule


def test_vetted_answers_keep_their_order_once_each() -> None:
    """The addresses to dial, in the resolver's order."""
    answers = ["2606:4700:0::1", "93.184.216.34", "93.184.216.34"]
    assert check_addresses(PUBLIC_WEB, "media.example.com", answers) == ("2606:4700::1", "93.184.216.34")


@pytest.mark.parametrize(
    ("locations", "rule"),
    [
        ([], "redirect-location-count"),
        ([b"/a", b"/b"], "redirect-location-count"),
        ([b""], "redirect-location-form"),
        ([b"/\xff"], "redirect-location-form"),
        ([b"/\\evil.example.com"], "redirect-location-form"),
        ([b"http://media.example.com/"], "redirect-downgrade"),
        ([b"http:name"], "url-slashes"),
        ([b"///evil.example.com/"], "url-host-missing"),
        ([b"//127.0.0.1/"], "address-denied"),
        ([b"file:///etc/passwd"], "scheme"),
    ],
)
def test_redirect_is_denied_by_its_rule(locations: list[bytes], rule: str) -> None:
    """A redirect goes through every rule, and some of its own."""
    source = check_url(PUBLIC_WEB, "https://media.example.com/a/b?c")
    with pytest.raises(PolicyDenied) as denied:
        check_redirect(PUBLIC_WEB, source, locations)
    assert denied.value.rule == rule


@pytest.mark.parametrize(
    ("location", "url"),
    [
        (b"d", "https://media.example.com/a/d"),
        (b"/d?e", "https://media.example.com/d?e"),
        (b"?e", "https://media.example.com/a/b?e"),
        (b"//other.example.com/", "https://other.example.com/"),
        (b"https://other.example.com:443/", "https://other.example.com/"),
    ],
)
def test_redirect_reference_is_resolved(location: bytes, url: str) -> None:
    """References by RFC 3986 section 5.2."""
    assert check_redirect(PUBLIC_WEB, check_url(PUBLIC_WEB, "https://media.example.com/a/b?c"), [location]).url == url


def test_a_second_answer_matters_to_the_second_hop() -> None:
    """The first hop is dialled as vetted; a redirect to the same name is resolved and vetted again."""
    assert judge(PUBLIC_WEB, "http://a.example.com/", PUBLIC, then=["127.0.0.1"]).verdict == "allow"
    again = judge(PUBLIC_WEB, "http://a.example.com/", PUBLIC, then=["127.0.0.1"], location="/b")
    assert (again.verdict, again.rule) == ("deny", "address-denied")


def test_answers_by_name() -> None:
    """A name that was not given an answer is denied."""
    answers = {"a.example.com": PUBLIC}
    assert judge(PUBLIC_WEB, "http://A.example.com/", answers).verdict == "allow"
    assert judge(PUBLIC_WEB, "http://b.example.com/", answers).rule == "dns-no-answer"


def test_unsafe_policy_reaches_what_it_names_and_no_more() -> None:
    """An unsafe policy opens its own addresses, not their neighbours."""
    assert check_url(LOOPBACK, "http://127.0.0.1:4711/a").url == "http://127.0.0.1:4711/a"
    for url in ("http://127.0.0.2/", "http://169.254.169.254/", "http://[::1]/", "http://localhost/"):
        assert judge(LOOPBACK, url, {}).verdict == "deny", url


@pytest.mark.parametrize(
    "wide", [{"unsafe_allow_networks": ("10.0.0.0/8",)}, {"ports": None}, {"ports": (80, 8080)}], ids=str
)
def test_a_wide_policy_says_so_in_its_name(wide: dict[str, object]) -> None:
    """Nothing wider than the public web without the word unsafe."""
    with pytest.raises(InputError, match="policy-unsafe-name"):
        NetworkPolicy("lab", **wide)  # type: ignore[arg-type]
    assert NetworkPolicy("lab-unsafe", **wide).is_unsafe  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"name": "Public Web"}, "policy-name"),
        ({"name": "a", "schemes": ("ftp",)}, "policy-schemes"),
        ({"name": "a", "schemes": ()}, "policy-schemes"),
        ({"name": "a", "deny_networks": ("10.0.0.1/8",)}, "policy-network"),
        ({"name": "a", "allowed_networks": ("10.0.0.1/8",)}, "policy-network"),
        ({"name": "a", "allowed_hosts": ("",)}, "policy-host"),
        ({"name": "a", "deny_hosts": ("https://example.com",)}, "policy-host"),
    ],
)
def test_a_policy_that_is_none_is_refused(values: dict[str, object], rule: str) -> None:
    """A policy is checked when it is made."""
    with pytest.raises(InputError) as refused:
        NetworkPolicy(**values)  # type: ignore[arg-type]
    assert refused.value.rule == rule


def test_operator_lists() -> None:
    """Hosts are suffixes on label borders; denied hosts and networks come on top of what is allowed."""
    policy = NetworkPolicy(
        "lab",
        allowed_hosts=("Example.com", ".b\u00fccher.example"),
        deny_hosts=("bad.example.com",),
        deny_networks=("93.184.216.0/24",),
    )
    assert judge(policy, "http://a.example.com/", ["93.184.215.1"]).verdict == "allow"
    assert judge(policy, "http://xn--bcher-kva.EXAMPLE/", PUBLIC).rule == "host-reserved"
    assert judge(policy, "http://badexample.com/", ["93.184.215.1"]).rule == "host-not-allowed"
    for host in ("bad.example.com", "x.BAD.example.com"):
        assert judge(policy, f"http://{host}/", ["93.184.215.1"]).rule == "host-denied-by-operator"
    assert judge(policy, "http://a.example.com/", PUBLIC).rule == "address-denied-by-operator"


def test_allowed_networks_stand_under_the_tables() -> None:
    """Every address must be in an allowed network, and none of them opens what the tables or the operator deny."""
    policy = NetworkPolicy(
        "lab", allowed_networks=("93.184.0.0/16", "10.0.0.0/8", "2606:4700::/32"), deny_networks=("93.184.1.0/24",)
    )
    name = "http://a.example.com/"
    assert judge(policy, name, ["93.184.216.34", "2606:4700::1"]).verdict == "allow"
    assert judge(policy, name, ["93.184.216.34", "8.8.8.8"]).rule == "address-not-allowed"
    assert judge(policy, "http://8.8.8.8/", {}).rule == "address-not-allowed"
    assert judge(policy, name, ["10.0.0.1"]).rule == "address-denied"
    assert judge(policy, name, ["93.184.1.1"]).rule == "address-denied-by-operator"


def test_a_mapped_form_does_not_pass_an_operators_deny_list() -> None:
    """Where an unsafe policy opens mapped addresses, the IPv4 address in them, which is dialled, is still denied."""
    policy = NetworkPolicy("lab-unsafe", deny_networks=("10.0.0.0/8",), unsafe_allow_networks=("::/0",))
    assert judge(policy, "http://[::ffff:10.0.0.1]/", {}).rule == "address-denied-by-operator"
    assert judge(policy, "http://[::ffff:11.0.0.1]/", {}).verdict == "allow"


def test_digest_is_of_what_the_policy_allows() -> None:
    """Equal policies have equal digests through JSON; different ones differ."""
    assert NetworkPolicy.from_json(json.loads(json.dumps(LOOPBACK.to_json()))) == LOOPBACK
    others = (PUBLIC_WEB.denying(["example.com"], []), PUBLIC_WEB.denying([], ["8.8.8.0/24"]))
    flagged = (NetworkPolicy("public-web", record_queries=True), NetworkPolicy("public-web", keep_mismatched=True))
    assert len({policy.digest() for policy in (PUBLIC_WEB, PUBLIC_HTTPS, LOOPBACK, *others, *flagged)}) == 7
    assert PUBLIC_WEB.digest() == NetworkPolicy("public-web").digest()


_HOSTS = st.from_regex(r"[a-zA-Z0-9_-]{1,8}(\.[a-zA-Z0-9_-]{1,8}){0,3}", fullmatch=True)
_NOISE = st.text(alphabet="ab01.:@/\\%[]#?-_ \t\u3002\u24d4", max_size=12)


@given(scheme=st.sampled_from(["http", "HTTPS", "ftp"]), host=_HOSTS, noise=_NOISE, tail=_NOISE)
def test_what_is_accepted_has_one_reading(scheme: str, host: str, noise: str, tail: str) -> None:
    """Accepted means that the HTTP client's parser reads scheme, host and port as we do, also from the text given."""
    url = f"{scheme}://{host}{noise}/{tail}"
    try:
        target = check_url(LOOPBACK if scheme == "http" else PUBLIC_WEB, url)
    except PolicyDenied:
        return
    assert target.host.rpartition(".")[2] not in RESERVED_NAMES
    for text in (target.url, url) if url.isascii() else (target.url,):
        other = httpx.URL(text)
        assert other.scheme == target.scheme
        assert other.raw_host.decode() == target.host
        assert (other.port or DEFAULT_PORTS[other.scheme]) == target.port
