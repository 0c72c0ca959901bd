"""From the bytes of a manifest to its structs, strictly; what is wrong is said with line, field, expected and got."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from contracts.bundle_json import read_json
from contracts.bundle_reader import Document, Path, shown
from contracts.errors import InputError
from contracts.release_document import PATTERN_WORDS, SECTIONS, ReleaseDocument
from contracts.release_rules import Finding, release_findings

RELEASE_BYTES_MAX = 1 << 20  # a manifest is 2 KiB; hostile files stop here
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", flags=re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>[0-9]+)\]")
_KEY = re.compile(r"^Object (?P<how>contains unknown|missing required) field `(?P<key>.*)`$", flags=re.DOTALL)
_REGEX = re.compile(r"^Expected `str` matching regex (?P<regex>.*)$", flags=re.DOTALL)
_WORDS = {repr(pattern): words for pattern, words in PATTERN_WORDS.items()}


def read_release(data: bytes, name: str) -> ReleaseDocument:
    """The document in `data` (UTF-8 JSON). `name` is what messages call it.

    Raises InputError: its rule is that of the first problem, its reason has a line `name:line: field: …` for each.
    """
    if len(data) > RELEASE_BYTES_MAX:
        raise InputError("release-size", f"{name}: expected at most {RELEASE_BYTES_MAX} bytes, got {len(data)}")
    try:
        document = read_json(name, data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("release-syntax", f"{name}:{line}: expected UTF-8, got other bytes") from error
    except InputError as error:  # the reader is the bundle's, and so are the names of its rules
        raise InputError(error.rule.replace("bundle-", "release-", 1), error.reason) from error
    try:
        release = msgspec.convert(document.value, ReleaseDocument)
    except msgspec.ValidationError as error:
        raise _refusal(document, [_type_finding(str(error), document.value)]) from None
    findings = list(release_findings(release))
    if findings:
        raise _refusal(document, findings)
    return release


def field_name(path: Path) -> str:
    """A path as messages write it: `limits.max_seqs`, `modalities[1]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the manifest"


def _refusal(document: Document, findings: Iterable[Finding]) -> InputError:
    found = list(findings)
    lines = document.lines(path for path, _, _ in found)
    ordered = sorted(found, key=lambda finding: lines[finding[0]])
    several = len(found) > 1
    told = [
        f"{document.name}:{lines[path]}: {field_name(path)}: {reason}{f' ({rule})' if several else ''}"
        for path, rule, reason in ordered
    ]
    return InputError(ordered[0][1], "\n".join(told))


def _type_finding(message: str, value: Any) -> Finding:
    """msgspec's sentence as a finding: with the path apart, and with what came where it only says what should."""
    match = _PLACE.match(message)
    what, place = (message, "") if match is None else (match["what"], match["path"] or "")
    path: Path = tuple(step["name"] or int(step["index"]) for step in _STEP.finditer(place))
    key = _KEY.match(what)
    if key is not None:
        return _key_finding(key["how"], key["key"], path)
    got: Any = value
    for step in path:
        got = got[step]
    expected = _expected(what, path)
    if "got" not in expected:
        expected += f", got {shown(got)}"
    return path, "release-form", expected.replace("`", "")


def _key_finding(how: str, key: str, path: Path) -> Finding:
    if how == "missing required":
        return path, "release-form", f"expected the key {key} (null where it does not apply), got none"
    known = list(SECTIONS[_section(path)].__struct_fields__)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return (*path, key), "release-unknown-key", f"unknown key; {hint}"


def _expected(what: str, path: Path) -> str:
    """The first half of the sentence: what should have been there."""
    regex = _REGEX.match(what)
    if regex is not None:
        return f"expected {_WORDS.get(regex['regex'], regex['regex'])}"
    if what.startswith("Invalid enum value"):
        return f"expected {_choices(path)}"
    return f"{what[:1].lower()}{what[1:]}"


def _choices(path: Path) -> str:
    """The values that the field at `path` may have, as its type lists them."""
    *section, name = (step for step in path if isinstance(step, str))
    kind = get_type_hints(SECTIONS[tuple(section)])[name]
    choices: list[Any] = []
    pending = [kind]
    while pending:
        each = pending.pop(0)
        if get_origin(each) is Literal:
            choices += get_args(each)
        elif isinstance(each, type) and issubclass(each, Enum):
            choices += [member.value for member in each]
        else:
            pending += get_args(each)
    return " or ".join(str(choice) for choice in choices)


def _section(path: Path) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))
