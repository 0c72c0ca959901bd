"""Strict reading of YAML: one document, no anchors, no aliases, no tags, plain scalars by YAML 1.2's core schema.

Aliases are refused because they let a small file stand for an enormous one, tags because they name code. The core
schema (YAML 1.2.2 section 10.3.2) is used instead of PyYAML's YAML 1.1 rules, by which `no` is false, `12:30` is
750 and an unquoted date is not text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from contracts.bundle_reader import CLOSE_LIST, CLOSE_MAP, OPEN_LIST, OPEN_MAP, SCALAR, Document, Event, at, build

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where the wheel has it: ten times as fast
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NUMBER_START = frozenset("+-.0123456789")
_NUMBER_CHARACTERS = 400  # the longest double written out; a longer run of digits is text


def read_yaml(name: str, text: str) -> Document:
    """The document of a YAML text. Raises InputError (bundle-syntax, bundle-yaml-feature, and those of `build`)."""
    return Document(name, build(name, _events(name, text)), lambda: _events(name, text))


def _events(name: str, text: str) -> Iterator[Event]:
    documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.NodeEvent):
                _refuse_features(name, event, line)
            if isinstance(event, yaml.ScalarEvent):
                yield SCALAR, _plain(event.value) if event.implicit[0] else event.value, line
            elif isinstance(event, yaml.MappingStartEvent):
                yield OPEN_MAP, None, line
            elif isinstance(event, yaml.SequenceStartEvent):
                yield OPEN_LIST, None, line
            elif isinstance(event, yaml.CollectionEndEvent):
                yield CLOSE_MAP if isinstance(event, yaml.MappingEndEvent) else CLOSE_LIST, None, line
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise at(name, line, "bundle-syntax", "expected one document, got another")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise at(name, line, "bundle-syntax", f"not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise at(name, line, "bundle-syntax", f"not YAML: {error.reason}") from error
    except ValueError as error:  # an escape that is no code point
        raise at(name, 1, "bundle-syntax", "not YAML: an escape names no character") from error


def _refuse_features(name: str, event: yaml.NodeEvent, line: int) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise at(name, line, "bundle-yaml-feature", "aliases are not read; write it out")
    if event.anchor is not None:
        raise at(name, line, "bundle-yaml-feature", "anchors are not read; write it out")
    if getattr(event, "tag", None) is not None:
        raise at(name, line, "bundle-yaml-feature", "tags are not read; values have the type they are written in")


def _plain(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _NUMBER_CHARACTERS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text
