"""The one reading of a URL: what two parsers could read differently is refused, nothing is normalised.

RFC 3986 and the WHATWG URL standard disagree on backslashes, userinfo, percent-encoded and numeric hosts, and
clients disagree with both; none of these forms is needed to name a medium. What passes is written out again from its
parts, and only that text is ever requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

import idna

from contracts.errors import PolicyDenied

URL_BYTES = 4096  # a presigned URL with a session's token has some 2,500; servers take 8,000 (RFC 9110 §4.1)
DEFAULT_PORTS = {"http": 80, "https": 443}
_RESERVED = (  # RFC 6761, 6762, 7686, 9476; ICANN for .internal and the name collisions; private networks' own
    "localhost test example invalid local onion alt arpa internal home corp mail intranet lan private localdomain i2p"
)
RESERVED_NAMES = frozenset(_RESERVED.split())
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.DOTALL)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_DOTS = re.compile(r"(\.|%2[Ee]){1,2}")
_NO_CHARACTER = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")  # WHATWG "ends in a number"


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that has one reading. `host` is lower case, an IPv6 literal without brackets; `literal` is the host
    again if it is an address. Fragments are dropped, since they are never sent."""

    scheme: str
    host: str
    port: int
    path_and_query: str
    literal: str | None = None

    @property
    def authority(self) -> str:
        """Host and, where it is not the scheme's own, port: the Host header (RFC 9110 §7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL written out from its parts."""
        return f"{self.scheme}://{self.authority}{self.path_and_query}"


def parse_url(url: str) -> Target:
    """Read an absolute URL. Raises PolicyDenied with the first rule that it breaks."""
    _apply(TEXT_RULES, url)
    scheme, _, rest = url.partition(":")
    cut = re.search(r"[/?#]", rest[2:])
    end = 2 + cut.start() if cut else len(rest)
    authority, tail = rest[2:end], rest[end:]
    _apply(AUTHORITY_RULES, authority)
    _apply(TAIL_RULES, tail)
    tail = tail.split("#", 1)[0]
    matched = _AUTHORITY.fullmatch(authority)
    if matched is None:
        raise PolicyDenied("url-authority", "expected host or host:port")
    host, literal = _read_host(matched["host"])
    scheme = scheme.lower()
    port = _read_port(matched["port"], scheme)
    target = Target(scheme, host, port, tail if tail.startswith("/") else f"/{tail}", literal)
    _check_agreement(target)
    return target


def read_domain(text: str) -> str:
    """A domain that hosts are compared with, in the form that hosts have here; one label is enough.

    Raises PolicyDenied with the rule that it breaks: an address is no domain.
    """
    domain = _to_ascii(text).lower()
    if _NUMERIC.fullmatch(domain.rpartition(".")[2]):
        raise PolicyDenied("host-numeric-form", "expected a name, not an address")
    _apply(HOST_RULES[:2], domain)
    return domain


def _length(url: str) -> str | None:
    got = len(url.encode("utf-8", "surrogatepass"))
    return None if 0 < got <= URL_BYTES else f"expected 1 to {URL_BYTES} bytes, got {got}"


def _characters(url: str) -> str | None:
    bad = _NO_CHARACTER.search(url)
    return None if bad is None else f"control character, space or half of a surrogate pair U+{ord(bad[0]):04X}"


def _backslash(url: str) -> str | None:
    return "a backslash is a slash to some parsers" if "\\" in url else None


def _absolute(url: str) -> str | None:
    return None if _SCHEME.match(url) else "expected an absolute URL with a scheme"


def _scheme(url: str) -> str | None:
    scheme = url.partition(":")[0].lower()
    return None if scheme in DEFAULT_PORTS else f"expected http or https, got {scheme[:20]}"


def _slashes(url: str) -> str | None:
    return None if url.partition(":")[2].startswith("//") else "expected // after the scheme"


def _empty(authority: str) -> str | None:
    return None if authority else "the host is missing"


def _userinfo(authority: str) -> str | None:
    return "an @ hides which host is meant" if "@" in authority else None


def _percent(authority: str) -> str | None:
    return "a percent sign in the host is decoded by some parsers and not by others" if "%" in authority else None


def _trailing_dot(host: str) -> str | None:
    return "a trailing dot makes one host two names" if host.endswith(".") else None


def _labels(host: str) -> str | None:
    if len(host) <= 253 and all(_LABEL.fullmatch(label) for label in host.split(".")):
        return None
    return "expected labels of 1 to 63 letters, digits, - and _, 253 in all"


def _single_label(host: str) -> str | None:
    return None if "." in host else "a name without a dot is searched for in private domains"


def _reserved(host: str) -> str | None:
    last = host.rpartition(".")[2]
    return f".{last} is not a public domain" if last in RESERVED_NAMES else None


def _non_ascii(tail: str) -> str | None:
    return None if tail.partition("#")[0].isascii() else "expected a percent-encoded path, got characters beyond ASCII"


def _host_end(tail: str) -> str | None:
    if tail.startswith("/") or "@" not in tail:
        return None
    return "where no slash ends the host, some parsers take what is before an @ for userinfo"


def _dot_segments(tail: str) -> str | None:
    if any(_DOTS.fullmatch(segment) for segment in re.split(r"[?#]", tail, maxsplit=1)[0].split("/")):
        return "some parsers take . and .. out of the path, some decode them first, some send them"
    return None


TextRule = tuple[str, Callable[[str], str | None]]
TEXT_RULES: tuple[TextRule, ...] = (
    ("url-length", _length),
    ("url-characters", _characters),
    ("url-backslash", _backslash),
    ("url-absolute", _absolute),
    ("scheme", _scheme),
    ("url-slashes", _slashes),
)
AUTHORITY_RULES: tuple[TextRule, ...] = (
    ("url-host-missing", _empty),
    ("url-userinfo", _userinfo),
    ("url-host-percent", _percent),
)
TAIL_RULES: tuple[TextRule, ...] = (
    ("url-non-ascii", _non_ascii),
    ("url-host-end", _host_end),
    ("url-dot-segments", _dot_segments),
)
HOST_RULES: tuple[TextRule, ...] = (
    ("host-trailing-dot", _trailing_dot),
    ("host-labels", _labels),
    ("host-single-label", _single_label),
    ("host-reserved", _reserved),
)


def _apply(rules: tuple[TextRule, ...], text: str) -> None:
    for name, rule in rules:
        reason = rule(text)
        if reason is not None:
            raise PolicyDenied(name, reason)


def _read_host(raw: str) -> tuple[str, str | None]:
    """The host in one form, and again if it is an address."""
    if raw.startswith("["):
        try:
            literal = str(IPv6Address(raw[1:-1]))
        except ValueError as error:
            raise PolicyDenied("host-ipv6-form", "expected an IPv6 address in the brackets") from error
        return literal, literal
    host = _to_ascii(raw).lower()
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):
        try:
            return host, str(IPv4Address(host))  # takes the canonical dotted quad only
        except ValueError as error:
            raise PolicyDenied("host-numeric-form", "expected a dotted quad of decimal numbers 0 to 255") from error
    _apply(HOST_RULES, host)
    return host, None


def _to_ascii(host: str) -> str:
    """IDNA2008 A-labels (RFC 5891) without UTS 46 mapping: enclosed and full-width forms are refused.

    ASCII labels pass as they are, `xn--` too: it is not decoded, so nothing depends on what it says.
    """
    if host.isascii():
        return host
    try:
        labels = [label if label.isascii() else idna.alabel(label).decode("ascii") for label in host.split(".")]
    except (idna.IDNAError, UnicodeError) as error:
        raise PolicyDenied("host-idna", "a label is not valid IDNA2008") from error
    return ".".join(labels)


def _read_port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    if re.fullmatch(r"[1-9][0-9]{0,4}", text) is None or int(text) > 65535:
        raise PolicyDenied("url-port-form", "expected a decimal port from 1 to 65535 without leading zeros")
    return int(text)


def _check_agreement(target: Target) -> None:
    """The standard library must read the written URL as we do."""
    try:
        other = urlsplit(target.url)
        read = (other.scheme, other.hostname, other.port or DEFAULT_PORTS.get(other.scheme))
    except ValueError as error:
        raise PolicyDenied("parser-disagreement", "urllib cannot read the URL") from error
    path, _, query = target.path_and_query.partition("?")
    if (*read, other.path, other.query) != (target.scheme, target.host, target.port, path, query):
        raise PolicyDenied("parser-disagreement", "urllib reads another scheme, host, port, path or query")
