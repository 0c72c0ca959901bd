"""Strict reading of JSON (RFC 8259, and I-JSON's rules of RFC 7493): no duplicate keys, no NaN, no lone surrogates.

A clean text is read by the standard library at its speed. Only a text with something suspicious in it, or one whose
lines are asked for, is read token by token.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from contracts.bundle_reader import (
    CLOSE_LIST,
    CLOSE_MAP,
    MAX_DEPTH,
    OPEN_LIST,
    OPEN_MAP,
    SCALAR,
    Document,
    Event,
    at,
    build,
)
from contracts.strict_json import no_constant, unique_members

_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<mark>[{}\[\]])|(?P<literal>[-+.0-9a-zA-Z]+)', flags=re.DOTALL
)
_KINDS = {"{": OPEN_MAP, "}": CLOSE_MAP, "[": OPEN_LIST, "]": CLOSE_LIST}
_SUSPICIOUS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # an escaped NUL, or half of a surrogate pair


class _Unclean(Exception):
    """Something is wrong, and was found by the fast reader, which knows no lines."""


def read_json(name: str, text: str) -> Document:
    """The document of a JSON text. Raises InputError (bundle-syntax, and those of `build`)."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise at(name, error.lineno, "bundle-syntax", f"not JSON: {error.msg}") from error
    except (_Unclean, RecursionError):
        value = build(name, _events(name, text))
    except ValueError as error:  # NaN, infinities, an integer of thousands of digits
        raise at(name, 1, "bundle-syntax", f"not JSON: {error}") from error
    if _SUSPICIOUS.search(text) or _is_deep(value):
        value = build(name, _events(name, text))
    return Document(name, value, lambda: _events(name, text))


def _is_deep(value: Any) -> bool:
    """Whether `value` nests deeper than MAX_DEPTH; level by level, so that the answer costs no stack."""
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
    return bool(level)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        return unique_members(pairs)
    except ValueError:
        raise _Unclean from None


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Unclean
    return value


def _events(name: str, text: str) -> Iterator[Event]:
    """The events of a text whose grammar `json` has accepted, or which nests too deep for it."""
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted, token.start())
        counted = token.start()
        if token["mark"]:
            yield _KINDS[token["mark"]], None, line
            continue
        value = json.loads(token[0])
        if (
            isinstance(value, str)
            and not value.isascii()
            and any("\ud800" <= character <= "\udfff" for character in value)
        ):
            raise at(name, line, "bundle-syntax", "half of a surrogate pair is not text")
        yield SCALAR, value, line
