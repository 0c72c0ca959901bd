"""Text of others in Markdown: it is shown, and means nothing."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.printable import escaped_markdown


@pytest.mark.parametrize("text", ["<img src=x>", "![a](http://x/)", "| a | b |", "# h", "`c`", "1. a", "&lt;b&gt;"])
def test_markup_is_text(text: str) -> None:
    """No ASCII punctuation is left but that of the references, and they read as what was said."""
    escaped = escaped_markdown(text)
    assert not set(escaped) & set("<>!`|*_[]().\"'")
    assert html.unescape(escaped) == text


@given(st.text())
def test_it_is_one_line_of_visible_text(text: str) -> None:
    """Whatever was in it."""
    escaped = escaped_markdown(text)
    assert escaped.isprintable()
    assert escaped == escaped.strip()
