"""What a record keeps of an HTTP answer: selected headers within bounds, and when to ask again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime

from contracts.locator import redact_url
from contracts.records import RECORDED_HEADERS

_VALUE_CHARACTERS, _LOCATION_CHARACTERS = 512, 2_048
_RETRY_AFTER_S = 86_400.0  # who wants to be left alone for longer than a day says nothing that a run can use
_SECONDS = re.compile(r"[0-9]{1,9}")


def shown_url(url: str, *, with_query: bool) -> str:
    """`url` as records show it: never a fragment or userinfo, the query only where the policy records queries."""
    shown = redact_url(url)
    _, mark, query = url.split("#", 1)[0].partition("?")
    return f"{shown}?{query}" if with_query and mark else shown


def recorded_headers(headers: Iterable[tuple[bytes, bytes]], *, with_query: bool) -> tuple[tuple[str, str], ...]:
    """The headers that a hop keeps, names in lower case, in the order in which they came.

    At most two of a name (a second one is what makes some answers refused). Bytes beyond ASCII are escaped; a value is
    cut at 512 characters, a location, which is shown as URLs are, at 2,048.
    """
    kept: list[tuple[str, str]] = []
    for raw_name, raw_value in headers:
        name = raw_name.decode("ascii", "replace").lower()
        if name not in RECORDED_HEADERS or sum(name == other for other, _ in kept) == 2:
            continue
        value = raw_value.decode("ascii", "backslashreplace")
        if name == "location":
            kept.append((name, shown_url(value, with_query=with_query)[:_LOCATION_CHARACTERS]))
        else:
            kept.append((name, value[:_VALUE_CHARACTERS]))
    return tuple(kept)


def retry_after_s(value: bytes, now: float) -> float | None:
    """The seconds from `now` (epoch) that a Retry-After header asks for, as seconds or as a date (RFC 9110 §10.2.3).

    None for what is neither, or more than a day away; 0 for a date that has passed.
    """
    text = value.decode("ascii", "replace").strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            when = parsedate_to_datetime(text)
            seconds = max(0.0, when.replace(tzinfo=when.tzinfo or UTC).timestamp() - now)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return seconds if seconds <= _RETRY_AFTER_S else None
