"""The help in a refusal: the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: the closest name that is known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; `mosaic settings` lists them"
