"""The URL grammar: what it accepts has one reading, and no form that parsers read differently passes."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote_to_bytes, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import PolicyDenied
from contracts.url_grammar import DEFAULT_PORTS, RESERVED_NAMES, parse_url, read_domain

_LABELS = st.from_regex(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,8}[a-zA-Z0-9_])?", fullmatch=True)
_LAST = st.sampled_from(["com", "ORG", "museum", "xn--p1ai", "x9"])
_NAMES = st.builds(lambda labels, last: ".".join([*labels, last]), st.lists(_LABELS, min_size=1, max_size=4), _LAST)
_LITERALS = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.ip_addresses(v=6).map(lambda address: f"[{address.exploded.upper()}]"),
)
_UNICODE = st.sampled_from(["b\u00fccher", "\u043f\u0440\u0438\u043c\u0435\u0440", "\u4f8b\u5b50", "fa\u00df"]).map(
    "{}.com".format
)
_HOSTS = st.one_of(_NAMES, _LITERALS, _UNICODE)
_PORTS = st.one_of(st.just(""), st.integers(1, 65535).map(":{}".format))
_SAFE = "abzAZ019-._~!$&'()*+,;=:@%/"
_TAILS = st.one_of(
    st.just(""),
    st.builds(
        "/{}{}{}".format, st.text(_SAFE, max_size=12), st.sampled_from(["", "?a=1&b[]=/%2e?x"]), st.just("#f?@/")
    ),
    st.text(_SAFE, max_size=6).map("?{}".format),
)
_DOTS = re.compile(r"/(\.|%2[Ee]){1,2}(?=[/?#]|$)")
_HONEST_TAILS = _TAILS.filter(
    lambda tail: not _DOTS.search(tail.partition("?")[0]) and not (tail.startswith("?") and "@" in tail)
)
_URLS = st.builds("{}://{}{}{}".format, st.sampled_from(["http", "HTTPS", "hTTp"]), _HOSTS, _PORTS, _TAILS)
_SPOILERS = st.one_of(
    st.sampled_from(
        list("@:/\\?#[]%.,;_-^|{}<>\"`'\t\r\n \x00\x7f\x85\u00a0\u3002\uff0e\uff61\u2024\uff0f\u2044\u24d0\u0131")
    ),
    st.sampled_from(
        ["//", "\\\\", "%2e", "%00", "%40", "..", "0x", "127.0.0.1", "@127.0.0.1", ":80", ":080", "localhost"]
    ),
    st.characters(),
)


def agree(url: str) -> None:
    """If `url` is accepted, both other parsers read the written text as ours, and the given one where it is ASCII."""
    try:
        target = parse_url(url)
    except PolicyDenied:
        return
    path, _, query = target.path_and_query.partition("?")
    assert parse_url(target.url) == target
    for text in (target.url, url) if url.isascii() else (target.url,):
        theirs, theirs_too = httpx.URL(text), urlsplit(text)
        assert (theirs.scheme, theirs_too.scheme) == (target.scheme,) * 2
        assert theirs.raw_host.decode().lower() == str(theirs_too.hostname).lower() == _as_given(target.host, text)
        for port in (theirs.port, theirs_too.port):
            assert (port or DEFAULT_PORTS[target.scheme]) == target.port
        assert (theirs_too.path or "/", theirs_too.query) == (path, query)
        # The HTTP client percent-encodes what RFC 3986 does not allow in a path, and nothing else.
        assert unquote_to_bytes(theirs.raw_path) == unquote_to_bytes(target.path_and_query)
        assert not theirs.username
        assert not theirs.password


def _as_given(host: str, text: str) -> str:
    """IPv6 literals are written in one form; the given text may have another of the same address."""
    if ":" not in host:
        return host
    given = text.partition("[")[2].partition("]")[0].lower()
    assert IPv6Address(given) == IPv6Address(host)
    return given


@given(url=_URLS)
def test_what_is_well_formed_has_one_reading(url: str) -> None:
    """Scheme, host, port, path and query are read alike by httpx, by urllib and by us."""
    agree(url)


@given(url=_URLS, spoilers=st.lists(st.tuples(st.integers(0, 80), _SPOILERS), min_size=1, max_size=3))
def test_what_is_mutated_has_one_reading_or_none(url: str, spoilers: list[tuple[int, str]]) -> None:
    """Hostile pieces anywhere in a URL: refused, or read alike by everybody."""
    for position, piece in spoilers:
        cut = position % (len(url) + 1)
        url = url[:cut] + piece + url[cut:]
    agree(url)


@given(text=st.text(max_size=40))
def test_any_text_is_refused_or_has_one_reading(text: str) -> None:
    """Nothing but PolicyDenied comes of any text."""
    agree(text)
    agree(f"http://{text}")
    agree(f"http://{text}.example.com/{text}")


@given(name=_NAMES, tail=_HONEST_TAILS)
def test_well_formed_names_are_accepted(name: str, tail: str) -> None:
    """The grammar refuses no honest name: letters, digits, hyphen and underscore inside labels, any public suffix."""
    assert parse_url(f"https://{name}{tail}").host == name.lower()


@given(name=_NAMES, tail=_TAILS, data=st.data())
def test_ambiguous_forms_of_any_honest_url_are_refused(name: str, tail: str, data: st.DataObject) -> None:
    """Userinfo, backslash, percent, control, space, trailing dot, odd ports, foreign dots: refused anywhere."""
    cut = data.draw(st.integers(0, len(name)))
    for host in (
        f"user@{name}",
        f"user:pw@{name}",
        f"@{name}",
        f"{name}@",
        f"{name}\\@127.0.0.1",
        f"{name}.",
        f".{name}",
        f"{name}:",
        f"{name}:080",
        f"{name}:+80",
        f"{name}:80a",
        f"{name}:0",
        f"{name}:65536",
        f"{name}:80:80",
        f"{name}:\uff18\uff10",
        f"[{name}]",
        f"{name[:cut]}%{name[cut:]}",
        f"{name[:cut]}%2e{name[cut:]}",
        f"{name[:cut]}\t{name[cut:]}",
        f"{name[:cut]} {name[cut:]}",
        f"{name[:cut]}\x00{name[cut:]}",
        f"{name[:cut]}\r\n{name[cut:]}",
        f"{name[:cut]}..{name[cut:]}",
        f"{name[:cut]}\uff0e{name[cut:]}",
        f"{name[:cut]}\u3002{name[cut:]}",
        f"{name[:cut]}\u200b{name[cut:]}",
        f"{name[:cut]}\uff41{name[cut:]}",
        f"{name[:cut]}\u24d0{name[cut:]}",
        f"{name[:cut]}\u212a{name[cut:]}",
    ):
        with pytest.raises(PolicyDenied):
            parse_url(f"http://{host}{tail}")


@given(address=st.ip_addresses(v=4), tail=_HONEST_TAILS)
def test_only_the_dotted_quad_is_an_ipv4_address(address: IPv4Address, tail: str) -> None:
    """Every other form that inet_aton, browsers or libraries read as an address is refused: none is a name."""
    number, parts = int(address), [int(part) for part in str(address).split(".")]
    assert parse_url(f"http://{address}{tail}").literal == str(address)
    for host in (
        str(number),
        hex(number),
        oct(number).replace("o", ""),
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        ".".join(f"{part:04d}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"{hex(parts[0])}.{parts[1]}.{parts[2]}.{parts[3]}",
        f"{parts[0]}.{parts[1]}.{parts[2]}.{hex(parts[3])}",
        f"{address}.",
        f"{address}.1",
        f"a.{parts[3]}",
        f"{parts[0] + 256}.{parts[1]}.{parts[2]}.{parts[3]}",
        str(number + (1 << 32)),
    ):
        with pytest.raises(PolicyDenied) as denied:
            parse_url(f"http://{host}{tail}")
        assert denied.value.rule in ("host-numeric-form", "host-trailing-dot")


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_reserved_names_are_refused(name: str) -> None:
    """A name under a domain that is not public, in any case, is refused; as a label inside another it is a name."""
    for host in (f"media.{name}", f"a.b.{name.upper()}"):
        with pytest.raises(PolicyDenied, match="host-reserved"):
            parse_url(f"http://{host}/")
    assert parse_url(f"http://{name}.example.com/").host == f"{name}.example.com"


@pytest.mark.parametrize(
    "path", ["/.", "/..", "/a/../b", "/a/./b", "/%2e%2e/b", "/a/%2E", "/.%2e/", "/%2e./b", "/a/..?b", "/..#c"]
)
def test_dot_segments_are_refused(path: str) -> None:
    """Some parsers take them out, some decode them first, some send them: the server would not get what was read."""
    with pytest.raises(PolicyDenied, match="url-dot-segments"):
        parse_url(f"http://example.com{path}")


@pytest.mark.parametrize("tail", ["?@127.0.0.1/", "#@127.0.0.1/", "?a=b@c", "#x?@y", "?#@"])
def test_an_at_sign_that_no_slash_keeps_from_the_host_is_refused(tail: str) -> None:
    """Parsers that know only the slash as the end of the host read `example.com?` as userinfo."""
    with pytest.raises(PolicyDenied, match="url-host-end"):
        parse_url(f"http://example.com{tail}")
    assert parse_url(f"http://example.com/{tail}").host == "example.com"


@pytest.mark.parametrize("path", ["/a..b", "/...", "/.a", "/a.", "/a?b=/../c", "/a?../b", "/a%2eb", "/%252e%252e/"])
def test_dots_that_are_no_segments_pass(path: str) -> None:
    """Dots in names and in queries are read alike by everybody."""
    agree(f"http://example.com{path}")
    assert parse_url(f"http://example.com{path}").path_and_query == path


@given(name=_NAMES)
def test_a_domain_is_read_as_the_host_it_is_compared_with(name: str) -> None:
    """Lists of hosts are held against hosts in the same form."""
    assert read_domain(name) == parse_url(f"http://{name}/").host
