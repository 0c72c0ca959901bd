"""The calibration world for tests: golden cases, and their media staged as a worker wants them.

A case is a pure function of task and seed (serving/calibration/world); the golden ones name the digests that the
media have under Pillow 13 and the answer that the engine gave when the model was measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.locator import FileSource
from contracts.question import MediaPart, Question, TextPart
from serving.calibration.world import Case, Media, draw, media_type_of, modality_of

GOLDEN_FILE = Path(__file__).parent / "vectors" / "calibration_golden.json"
TENANT = "tests"


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden case."""

    task: str
    seed: int
    question: str
    answer: str
    media: tuple[Digest, ...]

    def draw(self) -> Case:
        """The case itself."""
        return draw(self.task, self.seed)


def golden_cases() -> list[Golden]:
    """All of them, in the file's order."""
    return [
        Golden(
            case["task"],
            case["seed"],
            case["question"],
            case["expected"],
            tuple(Digest(value) for value in case["media_sha256"]),
        )
        for case in json.loads(GOLDEN_FILE.read_text())["cases"]
    ]


def media_part(media: Media) -> tuple[MediaPart, bytes]:
    """A drawn medium as a part of a question, and its bytes."""
    data = media.encode()
    artifact = Artifact(Digest.of(data), len(data), media_type_of(media), modality_of(media))
    return MediaPart(artifact, FileSource(artifact.staged_name)), data


def stage(root: Path, artifact: Artifact, data: bytes) -> Path:
    """Put bytes where a worker looks for them: `<root>/<tenant>/<digest>.<extension>`, read-only."""
    path = root / TENANT / artifact.staged_name
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(data)
        path.chmod(0o444)
    return path


def question_of(
    case: Case,
    root: Path,
    *,
    swapped: bool = False,
    max_output_tokens: int = 12,
    answer_schema: dict[str, object] | None = None,
) -> Question:
    """The case as a question, its media staged below `root`; `swapped` turns their order round."""
    drawn = reversed(case.media) if swapped else case.media
    parts: list[MediaPart | TextPart] = []
    for media in drawn:
        part, data = media_part(media)
        stage(root, part.artifact, data)
        parts.append(part)
    return Question((*parts, TextPart(case.question)), max_output_tokens=max_output_tokens, answer_schema=answer_schema)
