"""What the cells of the profile tables are: a value, how it is known, and where it was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Basis(str, Enum):
    """How a fact is known: seen on a running engine (of that version, or of the wheel that the source names), or read
    in its source, its documents or our own front."""

    MEASURED = "measured"
    READ = "read"


class FieldUse(str, Enum):
    """What an engine does with a request field. Only `HONOURED` ones are ever sent.

    `DEVIATES`: it has an effect, but another than OpenAI's documents say. `REFUSED`: the request fails. `DANGEROUS`:
    it starts tools, searches, code or sessions, reads files, changes which model answers, or harms other requests;
    nothing of ours can express it.
    """

    HONOURED = "honoured"
    DEVIATES = "deviates"
    IGNORED = "ignored"
    REFUSED = "refused"
    DANGEROUS = "dangerous"


@dataclass(frozen=True, slots=True)
class TerminalDefect:
    """A known way in which this version ends a stream without saying so.

    `after_text` tells whether it shows after chunks or on an empty stream; `same_again` whether the same request
    ends the same way.
    """

    name: str
    explanation: str
    after_text: bool
    same_again: bool


class Fact(NamedTuple):
    """A cell of the table."""

    value: Any
    basis: Basis
    source: str


class FieldEffect(NamedTuple):
    """What becomes of a request field: the class, and in a sentence how."""

    use: FieldUse
    how: str


def read(value: Any, source: str) -> Fact:
    """A fact that was read."""
    return Fact(value, Basis.READ, source)


def measured(value: Any, source: str) -> Fact:
    """A fact that was measured."""
    return Fact(value, Basis.MEASURED, source)


def carried(row: Mapping[str, Fact], version: str) -> dict[str, Fact]:
    """The facts of `row`, that of `version`, for a later one: what was measured there was not measured here."""
    already = "; as in "
    return {
        name: Fact(
            fact.value, Basis.READ, fact.source if already in fact.source else f"{fact.source}{already}{version}"
        )
        for name, fact in row.items()
    }
