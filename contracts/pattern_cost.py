"""How much work a pattern can make: a bound known before it sees a text.

Python's engine backtracks, so a pattern over text that a model wrote can run for ever: `^(a+)+$` does. Here a pattern
is read into a small grammar in which the number of ways through it can be counted. Refused are backreferences,
lookaround, inline flags, and whatever is repeated without bound while it can itself match in several ways. The bound
is on the single steps of a backtracking search that tries every way; a search that is cleverer takes fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from contracts.errors import InputError

MAX_PATTERN_CHARACTERS = 256
MOST_STEPS = 1 << 40
"""Counted no further: no budget is that large."""

_MAX_REPEATS = 1_000  # of a counted repetition; more is a length, which has keywords of its own
_MAX_GROUPS = 8  # within each other
_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]{1,5})(?:(,)([0-9]{1,5})?)?\})\??")
_ESCAPE = re.compile(r"\\(?:[dDwWsSbBnrtfv]|[^0-9A-Za-z]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})", flags=re.DOTALL)
_CLASS = re.compile(rf"\[\^?(?:{_ESCAPE.pattern}|[^\]\\\[])+\]", flags=re.DOTALL)
_SET_OPERATION = re.compile(r"--|&&|~~|\|\|")  # reserved by Python for a meaning that other engines do not have
_SIMPLE: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_Work = Callable[[int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PatternCost:
    """A part of a pattern. `work(n)` is in how many ways it can match in a text of n characters, and how many steps it
    takes to try them all; `least` is how many characters it takes at least."""

    work: _Work
    least: int
    is_anchored: bool = False

    def steps(self, characters: int) -> int:
        """The most steps of a search through a text of so many characters."""
        starts = 1 if self.is_anchored else characters + 1
        return min(starts * self.work(characters)[1] + characters + 1, MOST_STEPS)

    def is_single(self) -> bool:
        """Whether there is one way only, whatever the text."""
        return self.work(MOST_STEPS)[0] == 1


@lru_cache(maxsize=1_024)
def pattern_cost(pattern: str) -> PatternCost:
    """The cost of a pattern. Raises InputError (`schema-pattern`) for one that is none, or has no bound."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise _refused(f"expected at most {MAX_PATTERN_CHARACTERS} characters, got {len(pattern)}")
    reader = _Reader(pattern)
    cost = reader.alternatives(0)
    if reader.rest:
        raise _refused("a bracket closes that was not opened")
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise _refused(f"not a regular expression: {error}") from None
    return cost


def _refused(why: str) -> InputError:
    return InputError("schema-pattern", why)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def rest(self) -> str:
        return self._pattern[self._at :]

    def alternatives(self, depth: int) -> PatternCost:
        if depth > _MAX_GROUPS:
            raise _refused(f"expected at most {_MAX_GROUPS} groups within each other, got more")
        branches = [self._sequence(depth)]
        while self._took("|"):
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self, depth: int) -> PatternCost:
        parts: list[PatternCost] = []
        while self.rest and self.rest[0] not in "|)":
            parts.append(self._repeated(*self._atom(depth)))
        return _in_a_row(parts)

    def _atom(self, depth: int) -> tuple[PatternCost, bool]:
        """The next atom, and whether it is a single character."""
        if self._took("("):
            if self.rest.startswith("?") and not self._took("?:"):
                raise _refused("only plain groups are read: no lookaround, names, flags or conditions")
            inside = self.alternatives(depth + 1)
            if not self._took(")"):
                raise _refused("a group is not closed")
            return PatternCost(inside.work, inside.least), False
        for form in (_ESCAPE, _CLASS):
            if found := form.match(self.rest):
                self._at += len(found[0])
                return _character(found[0])
        if self.rest[0] in "\\[]{}*+?":
            raise _refused(f"{self.rest[:2]!r} at {self._at} is not read here; escape a character that is meant")
        self._at += 1
        return _character(self._pattern[self._at - 1])

    def _repeated(self, atom: PatternCost, is_character: bool) -> PatternCost:
        found = _QUANTIFIER.match(self.rest)
        if found is None:
            return atom
        self._at += len(found[0])
        low, high = _SIMPLE[found[1]] if found[1] else _counted(found)
        if atom.least == 0:
            raise _refused("what may match nothing is repeated")
        if is_character:
            return _characters(low, high)
        if high is not None:
            return _groups(atom, low, high)
        if not atom.is_single():
            raise _refused("what can match in several ways is repeated without bound; say {0,n}, or use maxLength")
        return _groups_without_bound(atom, low)

    def _took(self, text: str) -> bool:
        took = self._pattern.startswith(text, self._at)
        self._at += len(text) if took else 0
        return took


def _counted(found: re.Match[str]) -> tuple[int, int | None]:
    low = int(found[2])
    high = low if not found[3] else int(found[4]) if found[4] else None
    if max(low, high or 0) > _MAX_REPEATS:
        raise _refused(f"expected at most {_MAX_REPEATS} repetitions, got more")
    return low, high


def _character(text: str) -> tuple[PatternCost, bool]:
    if text.startswith("[") and _SET_OPERATION.search(text):
        raise _refused("two of - & ~ | beside each other in a class; escape them")
    is_width_less = text in ("^", "$", "\\b", "\\B")
    return PatternCost(lambda _: (1, 1), 0 if is_width_less else 1, text == "^"), not is_width_less


def _in_a_row(parts: list[PatternCost]) -> PatternCost:
    def work(n: int) -> tuple[int, int]:
        ways, steps = 1, 1
        for part in parts:
            more, each = part.work(n)
            steps = min(steps + ways * each, MOST_STEPS)
            ways = min(ways * more, MOST_STEPS)
        return ways, steps

    return PatternCost(work, sum(part.least for part in parts), bool(parts) and parts[0].is_anchored)


def _either(branches: list[PatternCost]) -> PatternCost:
    def work(n: int) -> tuple[int, int]:
        each = [branch.work(n) for branch in branches]
        return min(sum(ways for ways, _ in each), MOST_STEPS), min(sum(steps for _, steps in each), MOST_STEPS)

    least = min(branch.least for branch in branches)
    return PatternCost(work, least, all(branch.is_anchored for branch in branches))


def _characters(low: int, high: int | None) -> PatternCost:
    def work(n: int) -> tuple[int, int]:
        most = n if high is None else min(n, high)
        return max(most - low, 0) + 1, most + 1

    return PatternCost(work, low)


def _groups(group: PatternCost, low: int, high: int) -> PatternCost:
    def work(n: int) -> tuple[int, int]:
        ways, each = group.work(n)
        entered, total, steps = 1, 1 if low == 0 else 0, 1
        for count in range(1, high + 1):
            steps = min(steps + entered * each, MOST_STEPS)
            entered = min(entered * ways, MOST_STEPS)
            total = min(total + (entered if count >= low else 0), MOST_STEPS)
        return max(total, 1), steps

    return PatternCost(work, low * group.least)


def _groups_without_bound(group: PatternCost, low: int) -> PatternCost:
    def work(n: int) -> tuple[int, int]:
        times = n // group.least + 1
        return min(times, MOST_STEPS), min(times * group.work(n)[1], MOST_STEPS)

    return PatternCost(work, low * group.least)
