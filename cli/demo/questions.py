"""What the demo asks: each accepted format answered rightly, order shown, and every way to be refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli.demo.media import (
    DrawnFile,
    case,
    clip_file,
    disguised,
    oversized,
    picture_file,
    tone_file,
    truncated,
)
from serving.calibration.pictures import COLOURS, Clip, Picture
from serving.calibration.tones import Tone
from serving.calibration.world import QUESTIONS, Case

IMAGE_BYTES = 1 << 20  # the demo narrows the limit, so that its oversize file need not be 64 MiB
DRIP_GRACE_S = 2.0
_METADATA = "http://169.254.169.254/latest/meta-data/"  # where cloud hosts keep credentials
_MEDIA = {Picture: "image", Tone: "audio", Clip: "video"}
_FORM = {
    "type": "object",
    "properties": {"colour": {"enum": list(COLOURS)}},
    "required": ["colour"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The origin's content and the questions of the bundle, with `{origin}` where its address goes."""

    files: dict[str, bytes]
    redirects: dict[str, str]
    drips: frozenset[str]
    questions: list[dict[str, Any]]

    def bundle(self, origin: str, policy: str) -> dict[str, Any]:
        """The bundle's document, for an origin such as `http://127.0.0.1:8080`."""
        placed = [
            question | {"parts": [{kind: value.replace("{origin}", origin) for kind, value in part.items()}
                                  for part in question["parts"]]}
            for question in self.questions
        ]  # fmt: skip
        return {
            "version": 1,
            "id": "demo",
            "policy": policy,
            "limits": {"image_bytes": IMAGE_BYTES, "fetch_rate_grace_s": DRIP_GRACE_S},
            "max_output_tokens": 16,
            "temperature": 0,
            "questions": placed,
        }


class _Maker:
    """Collects files and questions."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.questions: list[dict[str, Any]] = []

    def ask(self, name: str, drawn: Case, suffixes: tuple[str, ...], **more: Any) -> None:
        """A question about `drawn`, its media in these formats and order, with the right answer as a label."""
        parts = []
        for index, (medium, suffix) in enumerate(zip(drawn.media, suffixes, strict=True)):
            file = _encode(f"{name}-{index}.{suffix}" if len(suffixes) > 1 else f"{name}.{suffix}", medium)
            parts.append(self.serve(_MEDIA[type(medium)], file))
        labels = {"expected": drawn.answer, "task": drawn.task}
        self.add(name, parts, drawn.question, labels=labels, **more)

    def serve(self, kind: str, file: DrawnFile) -> dict[str, str]:
        """Put a file on the origin and return the part that names it."""
        self.files[file.name] = file.data
        return {kind: f"{{origin}}/{file.name}"}

    def add(self, name: str, parts: list[dict[str, str]], text: str, **more: Any) -> None:
        """A question about `parts`."""
        self.questions.append({"id": name, "parts": [*parts, {"text": text}], **more})


def demonstration() -> Demonstration:
    """Draw everything. Deterministic for given library versions."""
    make = _Maker()
    _good(make)
    _bounded(make)
    _bad(make)
    return Demonstration(make.files, {"inside.png": _METADATA}, frozenset({"drip.png"}), make.questions)


def _good(make: _Maker) -> None:
    make.ask("colour-png", case("colour", 1), ("png",))
    make.ask("colour-jpeg", case("colour", 9), ("jpg",))
    make.ask("shape-webp", case("shape", 3), ("webp",))
    order = case("order", 4)
    make.ask("order", order, ("png", "jpg"))
    make.ask("order-swapped", _swapped(order), ("jpg", "png"))
    make.ask("tone-wav", case("tone", 5), ("wav",))
    make.ask("tone-flac", case("tone", 6), ("flac",))
    make.ask("sound-ogg", case("sound", 7), ("ogg",))
    make.ask("motion-mp4", case("video", 8), ("mp4",))
    make.ask("motion-webm", case("video", 5), ("webm",))
    mixed = case("mixed", 10)
    image, tone, clip = mixed.media
    in_engine_order = Case(mixed.task, mixed.seed, (image, clip, tone), mixed.question, mixed.answer)
    make.ask("mixed", in_engine_order, ("png", "mp4", "wav"))


def _bounded(make: _Maker) -> None:
    drawn = case("order", 11)
    parts = [make.serve("image", _encode(f"one-token-{index}.png", medium)) for index, medium in enumerate(drawn.media)]
    make.add("one-token", parts, drawn.question, max_output_tokens=1)
    form = case("colour", 12)
    part = make.serve("image", _encode("form.png", form.media[0]))
    make.add("form", [part], form.question, max_output_tokens=64, answer={"json_schema": _FORM})


def _bad(make: _Maker) -> None:
    about = QUESTIONS["colour"]
    whole = _encode("whole.jpg", case("colour", 13).media[0])
    make.add("gone", [{"image": "{origin}/gone.png"}], about)
    make.add("inside", [{"image": "{origin}/inside.png"}], about)
    make.add("truncated", [make.serve("image", truncated(whole, "truncated.jpg"))], about)
    make.add("disguised", [make.serve("image", disguised("disguised.png"))], about)
    make.add("oversize", [make.serve("image", oversized("oversize.png", IMAGE_BYTES))], about)
    make.add("drip", [make.serve("image", DrawnFile("drip.png", whole.data))], about)


def _encode(name: str, medium: Picture | Tone | Clip) -> DrawnFile:
    if isinstance(medium, Picture):
        return picture_file(name, medium)
    return tone_file(name, medium) if isinstance(medium, Tone) else clip_file(name, medium)


def _swapped(drawn: Case) -> Case:
    first, _, second = drawn.answer.partition(" then ")
    return Case(drawn.task, drawn.seed, drawn.media[::-1], drawn.question, f"{second} then {first}")
