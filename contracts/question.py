"""A resolved question: ordered parts whose media are artifacts, an answer form and parameters.

This is what a request is built from and what `question_digest` identifies. Where the bytes are staged is not in
it, nor which worker answers: the digest is the same on every host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from contracts.artifact import Artifact
from contracts.locator import Locator
from contracts.parameters import NO_PARAMETERS, NotHonoured, ParametersDocument


class Ordering(str, Enum):
    """What to do where the engine regroups parts: `auto` finds a form that keeps the order, `strict` refuses."""

    AUTO = "auto"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A medium as the worker sees it; `locator` says where it came from or what it was derived from."""

    artifact: Artifact
    locator: Locator


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the prompt."""

    text: str


Part = MediaPart | TextPart


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `parts` is in the bundle's order, and order is meaning.

    `answer_schema` is a JSON Schema, or None for free text. `temperature` is a decimal string ("0", "0.7"):
    identities hold no floats. `not_honoured` says what happens to parameters that the engine ignores; it is not part
    of what is asked.
    """

    parts: tuple[Part, ...]
    max_output_tokens: int
    temperature: str = "0"
    answer_schema: dict[str, Any] | None = field(default=None, hash=False)
    ordering: Ordering = Ordering.AUTO
    parameters: ParametersDocument = NO_PARAMETERS
    not_honoured: NotHonoured = NotHonoured.REFUSE

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """The media parts, in order."""
        return tuple(part for part in self.parts if isinstance(part, MediaPart))
