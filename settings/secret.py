"""A secret value of the settings: it can be used, and does not show itself."""

from __future__ import annotations


class Secret:
    """Text that no log, error, listing or record shows: only who asks for it with `reveal` has it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text."""
        return self._text

    def __repr__(self) -> str:
        return "(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)
