"""From the text of a document to plain values, strictly, remembering where everything stands.

YAML and JSON both arrive as a flat sequence of events (`kind, value, line`), so that nesting costs no stack and
every rule about keys, depth and characters is written once. Lines count from 1. Where a value stands is found by
reading the text a second time, and only when something is wrong with it: a correct document pays nothing for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from contracts.errors import InputError

OPEN_MAP, CLOSE_MAP, OPEN_LIST, CLOSE_LIST, SCALAR = "{", "}", "[", "]", "="

Event = tuple[str, Any, int]
Path = tuple[str | int, ...]

MAX_DEPTH = 64  # a JSON Schema spends two levels per level of the answer; the rest of a bundle needs five
_SHOWN_CHARACTERS = 60  # of a key or a short value in a message


@dataclass(frozen=True, slots=True)
class Document:
    """A document's value, and where its parts stand."""

    name: str
    value: Any
    events: Callable[[], Iterator[Event]]

    def lines(self, wanted: Iterable[Path]) -> dict[Path, int]:
        """The line of each path in `wanted`; of its nearest enclosing value where the path does not exist."""
        asked = set(wanted)
        found: dict[Path, int] = {(): 1}  # an empty document has no value to stand anywhere
        build(self.name, self.events(), {path[:cut] for path in asked for cut in range(len(path) + 1)}, found)
        return {
            path: next(found[path[:cut]] for cut in range(len(path), -1, -1) if path[:cut] in found) for path in asked
        }


class _Frame:
    """An open mapping or list."""

    __slots__ = ("container", "key", "key_line", "path")

    def __init__(self, container: dict[str, Any] | list[Any], path: Path) -> None:
        self.container = container
        self.path = path
        self.key: str | None = None
        self.key_line = 0

    def wants_key(self) -> bool:
        return self.key is None and isinstance(self.container, dict)

    def step(self) -> str | int:
        """The last step of the path of the value that comes next."""
        return len(self.container) if self.key is None else self.key

    def put(self, value: Any) -> None:
        if isinstance(self.container, list):
            self.container.append(value)
        elif self.key is not None:
            self.container[self.key] = value
            self.key = None


def at(name: str, line: int, rule: str, message: str) -> InputError:
    """The error of `rule` at a line of the document `name`."""
    return InputError(rule, f"{name}:{line}: {message}")


def shown(value: Any) -> str:
    """`value` as a message may show it: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def build(
    name: str, events: Iterator[Event], wanted: set[Path] | None = None, found: dict[Path, int] | None = None
) -> Any:
    """The plain value of `events`; fills `found` with the lines of the `wanted` paths.

    Raises InputError: bundle-duplicate-key, bundle-key-form, bundle-depth, bundle-nul, bundle-number.
    """
    top: list[Any] = []
    frame, stack = _Frame(top, ()), list[_Frame]()
    for kind, value, line in events:
        if kind in (CLOSE_MAP, CLOSE_LIST):
            frame = stack.pop()
            continue
        if isinstance(value, str) and "\0" in value:
            raise at(name, line, "bundle-nul", "the character U+0000 is in no name and no prompt")
        if isinstance(value, float) and not math.isfinite(value):
            raise at(name, line, "bundle-number", "a number that no double holds (1e400 is one)")
        if frame.wants_key():
            _take_key(name, frame, kind, value, line)
            continue
        # A value is where its key is; the document's own list has one element, which is the path ().
        path = (*frame.path, frame.step()) if stack and found is not None else ()
        if found is not None and wanted is not None and path in wanted:
            found[path] = frame.key_line if frame.key is not None else line
        if kind == SCALAR:
            frame.put(value)
            continue
        if len(stack) == MAX_DEPTH:
            raise at(name, line, "bundle-depth", f"expected at most {MAX_DEPTH} levels of nesting, got more")
        opened: dict[str, Any] | list[Any] = {} if kind == OPEN_MAP else []
        frame.put(opened)
        stack.append(frame)
        frame = _Frame(opened, path)
    return top[0] if top else None


def _take_key(name: str, frame: _Frame, kind: str, value: Any, line: int) -> None:
    if kind != SCALAR or not isinstance(value, str):
        what = shown(value) if kind == SCALAR else "a list or mapping"
        raise at(name, line, "bundle-key-form", f"expected text as a key, got {what}; quote it if it is meant as text")
    if value in frame.container:
        raise at(name, line, "bundle-duplicate-key", f"the key {shown(value)} stands twice in one mapping")
    frame.key, frame.key_line = value, line
