"""What the walk over a container's structure finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from contracts.errors import MediaRejected
from intake.children.source import Source


@dataclass(slots=True)
class Layout:
    """`end` is the offset at which the container ends; None where the structure is not clear and the decoder has the
    word. `facts` are findings. `least` is what decoding has to give at least, by the finding that tells it (`frames`,
    `samples`), where the container's parts are counted: a decoder may give fewer without a word. `coded_end` is where
    what is to be decoded ends, where that is before the container's end."""

    end: int | None = None
    facts: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    coded_end: int | None = None

    def add(self, name: str, count: int) -> None:
        """Add `count` to the finding `name`."""
        self.facts[name] = self.facts.get(name, 0) + count


def truncated(kind: str, what: str, offset: int, claimed: int, source: Source) -> MediaRejected:
    """The refusal of a file in which `what`, at `offset`, claims more bytes than are there."""
    left = max(source.size_bytes - offset, 0)
    return MediaRejected(f"{kind}-truncated", f"{what} at byte {offset} needs {claimed} bytes, {left} are there")
