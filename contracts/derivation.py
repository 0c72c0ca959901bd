"""What a release needs of a medium before its engine can take it: recipes that were checked, and their arithmetic."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from contracts.artifact import Modality
from contracts.derivation_document import AudioRecipe, ImageRecipe, VideoRecipe, recipe_findings
from contracts.errors import InputError


class ImageDerivation(ImageRecipe, frozen=True, kw_only=True):
    """A recipe of an image. Raises InputError for one that cannot be made."""

    modality: ClassVar[Modality] = Modality.IMAGE

    def __post_init__(self) -> None:
        _check(self, ImageRecipe)

    @property
    def media_type(self) -> str:
        """The media type of the result."""
        return f"image/{self.format}"

    def to_json(self) -> dict[str, Any]:
        """The form that crosses to the decoder."""
        return msgspec.structs.asdict(self)

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """The size (width, height) in pixels of a result made from a picture of `width` x `height`."""
        return _within(width, height, self.max_side_px)

    def fixed(self) -> dict[str, Any]:
        """What every transformation by this recipe says, whatever the picture was."""
        asked = {
            "name": "image-normalised",
            "format": self.format,
            "max_side_px": self.max_side_px,
            "alpha": self.alpha,
            "quality": "lossless" if self.quality is None else self.quality,
        }
        return asked if self.background is None else asked | {"background": self.background}


class AudioDerivation(AudioRecipe, frozen=True, kw_only=True):
    """A recipe of a recording. Raises InputError for one that cannot be made."""

    modality: ClassVar[Modality] = Modality.AUDIO
    media_type: ClassVar[str] = "audio/wav"

    def __post_init__(self) -> None:
        _check(self, AudioRecipe)

    def to_json(self) -> dict[str, Any]:
        """The form that crosses to the decoder."""
        return msgspec.structs.asdict(self)

    def fixed(self) -> dict[str, Any]:
        """What every transformation by this recipe says, whatever the recording was."""
        return {"name": "audio-to-wav", "codec": "pcm_s16", "rate_hz": self.rate_hz, "channels": self.channels}


class VideoDerivation(VideoRecipe, frozen=True, kw_only=True):
    """A recipe of a video. Raises InputError for one that cannot be made."""

    modality: ClassVar[Modality] = Modality.VIDEO
    media_type: ClassVar[str] = "image/gif"

    def __post_init__(self) -> None:
        _check(self, VideoRecipe)

    def to_json(self) -> dict[str, Any]:
        """The form that crosses to the decoder."""
        return msgspec.structs.asdict(self)

    def fixed(self) -> dict[str, Any]:
        """What every transformation by this recipe says, whatever the video was.

        Evenly spaced frames are named by their number and positions alone, as they always were.
        """
        asked: dict[str, Any] = {
            "name": "frames-to-gif",
            "delay_ms": self.frame_delay_ms,
            "max_side_px": self.max_side_px,
        }
        if self.select == "even":
            return asked
        asked |= {"select": self.select, "frames_max": self.frames}
        if self.every is not None:
            asked["every"] = self.every
        if self.times_ms is not None:
            asked["times_ms"] = list(self.times_ms)
        if self.scene_threshold is not None:
            asked["scene_threshold"] = self.scene_threshold
        return asked

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """The size (width, height) in pixels of a result made from frames of `width` x `height`."""
        width, height = _within(width, height, self.max_side_px)
        if width == height and not self.allow_square:
            height = height - SQUARE_TRIM_PX if height > 2 * SQUARE_TRIM_PX else height + SQUARE_TRIM_PX
        return width, height

    def positions(self, available: int) -> tuple[int, ...]:
        """Which of `available` frames `even` takes: strictly rising indices, evenly spaced, ends included."""
        if available <= self.frames:
            return tuple(range(available))
        if self.frames == 1:
            return (available // 2,)
        steps = self.frames - 1
        return tuple((index * (available - 1) + steps // 2) // steps for index in range(self.frames))


Derivation = ImageDerivation | AudioDerivation | VideoDerivation

SQUARE_TRIM_PX = 8
"""3 % of 256 px: enough that no rounding makes it square again."""

_CLASSES: dict[Modality, type[Derivation]] = {
    Modality.IMAGE: ImageDerivation,
    Modality.AUDIO: AudioDerivation,
    Modality.VIDEO: VideoDerivation,
}


def derivation_of(modality: Modality, document: ImageRecipe | AudioRecipe | VideoRecipe | dict[str, Any]) -> Derivation:
    """The recipe of a kind, from a manifest's struct or from `to_json`. Raises InputError where it is none."""
    plain = document if isinstance(document, dict) else msgspec.structs.asdict(document)
    try:
        return msgspec.convert(plain, _CLASSES[modality])
    except msgspec.ValidationError as error:
        raise _not_of_form(error) from error


def _check(
    recipe: ImageRecipe | AudioRecipe | VideoRecipe, form: type[ImageRecipe | AudioRecipe | VideoRecipe]
) -> None:
    """Types and ranges too: a struct that is made in the program was not checked by any parser."""
    try:
        msgspec.convert(msgspec.structs.asdict(recipe), form)
    except msgspec.ValidationError as error:
        raise _not_of_form(error) from error
    for name, rule, reason in recipe_findings(recipe):
        raise InputError(rule, f"{name}: {reason}")


def _not_of_form(error: msgspec.ValidationError) -> InputError:
    what, _, place = str(error).replace("`", "").partition(" - at $.")
    words = "expected six lowercase hex digits, RRGGBB" if "regex" in what else what
    return InputError("derivation-form", f"{place or 'recipe'}: {words[:1].lower()}{words[1:]}")


def _within(width: int, height: int, max_side_px: int) -> tuple[int, int]:
    """`width` x `height` reduced to a longer side of `max_side_px`, each side rounded to the nearest and at least 1."""
    longer = max(width, height)
    if longer <= max_side_px:
        return width, height
    return (
        max(1, (width * max_side_px + longer // 2) // longer),
        max(1, (height * max_side_px + longer // 2) // longer),
    )


FRAMES = VideoDerivation(
    select="even",
    frames=8,
    every=None,
    times_ms=None,
    scene_threshold=None,
    max_side_px=256,
    frame_delay_ms=120,
    container="gif",
    allow_square=False,
)
"""What the engine in the box needs of a video (ADR 0002); so does a release that says nothing of derivatives."""
