"""Patterns: accepted only with a bound on their work, and the bound holds."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contracts.errors import InputError
from contracts.pattern_cost import MAX_PATTERN_CHARACTERS, MOST_STEPS, pattern_cost

parser: Any = importlib.import_module("re._parser")

UNBOUNDED = [
    *("^(a+)+$", "(a*)*", "(a|a)*b", "(a|b?)+", "(?:a{1,3})+", "(a?)*", "(a|ab)+", r"(\w\d*,)*", "(?:(?:a|b)c)*"),
    *(r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?i)a", "(?P<n>a)", "(?#x)", "a*+", "a**", "^*", "(^)*", "($|a)+"),
    *("(", ")", "[", "]", "a)", "*", "a{1001}", "a{99999}", "{", "a{,3}", "a{x}", r"\p{L}", r"\A", r"\Z", r"\0", r"\8"),
    *(
        "[[a]",
        "[a--b]",
        "[a&&b]",
        "[]",
        "[b-a]",
        r"[\1]",
        r"[\Z]",
        "\\",
        "a" * 257,
        "(" * 20 + ")" * 20,
        r"\N{DIGIT ONE}",
    ),
]


@pytest.mark.parametrize("pattern", UNBOUNDED)
def test_what_has_no_bound_or_no_one_reading_is_refused(pattern: str) -> None:
    """By name, before any text is seen."""
    with pytest.raises(InputError, match="schema-pattern"):
        pattern_cost(pattern)


# Steps over a text of 200 characters.
BOUNDED = {
    "^[A-Z]{2}[0-9]{4}$": 300,
    r"^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?Z?)?$": 400,
    r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$": 400,
    "^(red|green|blue)$": 300,
    r"\S": 1_000,
    "^$": 300,
    "": 500,
    r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$": 41_000_000,
    "^(?:ab)*$": 1_000,
    ".*foo.*": 400_000_000,
    r"^[+-]?\d+(\.\d+)?$": 200_000,
    "\\u00e4[\\x41-\\]]a{3}?": 2_000,
}


@pytest.mark.parametrize("pattern", BOUNDED)
def test_what_people_write_is_read_and_counted(pattern: str) -> None:
    """Its steps are counted, grow with the text, and are within what is said here."""
    cost = pattern_cost(pattern)
    assert cost.steps(100) < cost.steps(200) <= BOUNDED[pattern]
    assert cost.steps(10**9) <= MOST_STEPS


def test_what_backtracks_costs_the_power_of_its_length() -> None:
    """Each quantifier without bound is a factor, and so is a missing anchor."""
    steps = [pattern_cost(pattern).steps(1_000) for pattern in ("^a*$", "a*$", "a*a*$", "^a*a*a*a*$")]
    assert [len(str(each)) for each in steps] == [4, 7, 10, 13]


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", r"\w", "^", "$", "(a)", "(?:a|b)", "(ab)", "a|b", "(a|ab)"])
MANY = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
PATTERNS = st.lists(st.tuples(ATOMS, MANY).map("".join), min_size=1, max_size=4).map("".join)


@given(PATTERNS | st.text("ab()[]{}*+?|^$\\1,-.", max_size=12), st.text("ab-", max_size=30))
def test_any_pattern_is_refused_or_is_one_of_the_engines(pattern: str, text: str) -> None:
    """Nothing else is raised; an accepted one compiles, and a search with it ends."""
    try:
        cost = pattern_cost(pattern)
    except InputError:
        return
    found = re.compile(pattern).search(text)
    assert cost.steps(len(text)) > len(text)
    assert found is None or found.end() - found.start() >= cost.least


class _Naive:
    """A backtracking matcher over the engine's own parse tree that never succeeds: it tries every way, and counts."""

    def __init__(self, pattern: str, text: str) -> None:
        self.tests = 0
        self._text = text
        for start in range(len(text) + 1):
            self._row(list(parser.parse(pattern)), start, lambda _: None)

    def _row(self, items: list[Any], at: int, then: Callable[[int], None]) -> None:
        if not items:
            then(at)
            return
        (op, argument), rest = items[0], items[1:]
        self._one(str(op), argument, at, lambda end: self._row(rest, end, then))

    def _one(self, op: str, argument: Any, at: int, then: Callable[[int], None]) -> None:
        if op == "SUBPATTERN":
            self._row(list(argument[-1]), at, then)
        elif op == "BRANCH":
            for branch in argument[1]:
                self._row(list(branch), at, then)
        elif op in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inside = argument
            self._repeat((low, high), inside, at, 0, then)
        elif op == "AT":
            self.tests += 1
            if at == (0 if "BEGINNING" in str(argument) else len(self._text)):
                then(at)
        else:
            self.tests += 1
            if at < len(self._text) and (op == "ANY" or self._fits(op, argument, self._text[at])):
                then(at + 1)

    def _repeat(self, times: tuple[int, int], inside: Any, at: int, done: int, then: Callable[[int], None]) -> None:
        if done < times[1]:
            self._row(list(inside), at, lambda end: self._repeat(times, inside, end, done + 1, then))
        if done >= times[0]:
            then(at)

    def _fits(self, op: str, argument: Any, character: str) -> bool:
        if op == "IN":
            return any(self._fits(str(each), value, character) for each, value in argument)
        return character.isalnum() if op == "CATEGORY" else ord(character) == argument


@given(PATTERNS, st.sampled_from(["", "a", "aaaaaa", "abab", "aab", "bbbbb", "aaaaaaaaaa"]))
def test_the_bound_holds_for_a_search_that_tries_every_way(pattern: str, text: str) -> None:
    """No accepted pattern makes more tests of characters and places than its steps say."""
    try:
        steps = pattern_cost(pattern).steps(len(text))
    except InputError:
        return
    assume(steps < 20_000)
    assert _Naive(pattern, text).tests <= steps


def test_the_longest_pattern_is_read() -> None:
    """An inclusive maximum."""
    assert pattern_cost("a" * MAX_PATTERN_CHARACTERS).least == MAX_PATTERN_CHARACTERS
