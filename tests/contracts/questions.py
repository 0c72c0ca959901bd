"""Questions for tests: artifacts by a digit, parts by kind."""

from __future__ import annotations

from typing import Any

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from contracts.locator import FileSource
from contracts.question import MediaPart, Part, Question, TextPart

TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}


def medium(kind: str, digit: str = "1") -> MediaPart:
    """A media part whose digest is 64 times `digit`."""
    artifact = Artifact(Digest(digit * 64), 10, TYPES[kind], Modality(kind))
    return MediaPart(artifact, FileSource(f"{kind}-{digit}"))


def question(*kinds: str, **changes: Any) -> Question:
    """A question of parts of these kinds; a word that is no kind is a text part."""
    parts: list[Part] = []
    for place, kind in enumerate(kinds, start=1):
        parts.append(medium(kind, f"{place:x}"[-1]) if kind in TYPES else TextPart(kind))
    return Question(tuple(parts), **({"max_output_tokens": 64} | changes))


def staged_url(artifact: Artifact) -> str:
    """Where a test's worker finds an artifact."""
    return f"file:///srv/mosaic-evidence/{artifact.staged_name}"
