"""Text of others made harmless to whoever displays it: terminals, browsers, spreadsheets.

Control characters steer terminals (ECMA-48), format characters such as U+202E turn text around (UAX 9), and lone
surrogates are no text at all.
"""

from __future__ import annotations

import json
import re

_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_BEYOND_ASCII = re.compile(r"[^\x20-\x7e]")


def printable(text: str) -> str:
    """`text` with every character that shows nothing by itself as U+FFFD, line feeds and tabs as spaces."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def escaped_markdown(text: str) -> str:
    """`text` on one line as Markdown that shows it and means nothing else: ASCII punctuation as character references,
    which are never structure (CommonMark §2.5, 6.4) and, where HTML is passed on, no tag."""
    return _PUNCTUATION.sub(lambda match: f"&#{ord(match[0])};", " ".join(printable(text).split()))


def escaped_json(text: str) -> str:
    """JSON `text` with JSON escapes for what shows nothing by itself; it still reads as the same value."""
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
