"""What is printed cannot steer a terminal, nor a spreadsheet."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.output import json_text, print_table, say
from cli.results import inert
from contracts.printable import printable


@given(st.text())
def test_printable(text: str) -> None:
    """Whatever the text, what is printed of it is one line of printable characters, and printable text is itself."""
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_text(value: Any) -> None:
    """A JSON line reads back as its value and has no control character in it."""
    text = json_text(value)
    assert json.loads(text) == value
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x9b2J", "[bold]not markup[/bold]", "two\nlines", "\u202eright"])
def test_table(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """A table's cell is text: neither escapes nor markup nor a line's end of its own get through."""
    print_table("title", ("column",), [[text]])
    out = capsys.readouterr().out
    assert printable(text) in out
    assert not any(c in out for c in "\x1b\x9b\u202e")


def test_say(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said goes to stderr line by line, without controls; stdout stays for the result."""
    say("one\n\x1b[2Jtwo")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "one\n\N{REPLACEMENT CHARACTER}[2Jtwo\n")


@pytest.mark.parametrize("cell", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1"])
def test_formulas_are_inert(cell: str) -> None:
    """A cell that a spreadsheet would run gets an apostrophe first; others stay as they are."""
    assert inert(cell) == f"'{cell}"
    assert inert("red") == "red"
