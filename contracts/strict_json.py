"""The one strict reader of JSON that others wrote (RFC 8259 with I-JSON's rules, RFC 7493).

What it returns can be written again by both serialisers of contracts.digest: no key twice, no NaN, no number that
overflows or that other readers round, no half of a surrogate pair, and no nesting that was not bounded before a parser
recursed into it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from contracts.digest import EXACT_NUMBERS, wire_json
from contracts.errors import InputError

_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', flags=re.DOTALL)
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_EXACT_DIGITS = len(str(EXACT_NUMBERS)) + 1  # and a sign; Python takes quadratic time over the digits of an integer


def read_strict(data: str | bytes, *, max_depth: int) -> Any:
    """The value of a JSON text; bytes are UTF-8. Raises InputError: `json-depth`, `json-form`."""
    try:
        text = data if isinstance(data, str) else data.decode()
        if is_deeper(text, max_depth):
            raise InputError("json-depth", f"expected at most {max_depth} levels, got more")
        value = json.loads(
            text,
            object_pairs_hook=unique_members,
            parse_constant=no_constant,
            parse_int=_exact_integer,
            parse_float=exact_float,
        )
        if not text.isascii() or _HALF_PAIR.search(text):
            wire_json(value)  # fails on half of a surrogate pair, and only on that
    except json.JSONDecodeError as error:
        raise InputError("json-form", f"{len(data)} long, not JSON: {error.msg}") from None
    except UnicodeError:
        raise InputError("json-form", f"{len(data)} long, not text of UTF-8") from None
    except ValueError as error:
        raise InputError("json-form", f"{len(data)} long: {error}") from None
    return value


def is_deeper(text: str, max_depth: int) -> bool:
    """Whether brackets outside strings nest deeper than `max_depth`. Costs no stack, and one look at each character."""
    depth = 0
    for mark in _MARK.finditer(text):
        first = mark[0][0]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                return True
        elif first in "]}":
            depth -= 1
    return False


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of `pairs`. Raises ValueError for a key that stands twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def no_constant(word: str) -> Any:
    """Raises ValueError: NaN and the infinities are words of Python's, not of JSON."""
    raise ValueError(f"{word} is not a JSON number")


def exact_float(digits: str) -> float:
    """The number. Raises ValueError where it overflows, or is an integer that other readers round."""
    value = float(digits)
    if abs(value) >= EXACT_NUMBERS:
        raise ValueError("a number of 2^53 or beyond, which is not exact")
    return value


def _exact_integer(digits: str) -> int:
    if len(digits) > _EXACT_DIGITS or abs(value := int(digits)) >= EXACT_NUMBERS:
        raise ValueError("an integer of 2^53 or beyond, which is not exact")
    return value
