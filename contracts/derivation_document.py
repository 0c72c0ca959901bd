"""Recipes of derivatives as a release manifest writes them: closed structs, and what their types cannot say.

`contracts.derivation` has the same recipes as values that were checked, `contracts.derivation_spec` reads them from one
line of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

MAX_FRAMES = 64
"""A GIF frame of 256 x 144 is some 20 KiB; more frames than this is another container's work."""

SIDE_MIN_PX, SIDE_MAX_PX = 16, 8_192
VIDEO_SIDE_MAX_PX = 4_096
DELAY_MAX_MS = 10_000
COLOUR_PATTERN = r"^[0-9a-f]{6}$(?!\n)"

Rule = tuple[str, str, str]
"""A field, the rule it breaks, and expected and got."""


class _Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every key must be there; what does not apply is null."""


class ImageRecipe(_Recipe, frozen=True, kw_only=True):
    """One upright picture in sRGB with 8 bits a channel, and nothing beside its pixels.

    The longer side is at most `max_side_px`, never enlarged. `quality` is that of JPEG (1 to 95; above, files grow for
    nothing) and of lossy WebP; null is lossless, so PNG has none and JPEG always one. `alpha` `flatten` puts the
    picture on `background` (RRGGBB), `keep` has no background; JPEG cannot keep it. Of an animation, the first frame
    is taken.
    """

    max_side_px: Annotated[int, Meta(ge=SIDE_MIN_PX, le=SIDE_MAX_PX)]
    format: Literal["png", "jpeg", "webp"]
    quality: Annotated[int, Meta(ge=1, le=95)] | None
    alpha: Literal["flatten", "keep"]
    background: Annotated[str, Meta(pattern=COLOUR_PATTERN)] | None


class AudioRecipe(_Recipe, frozen=True, kw_only=True):
    """PCM of 16 bits in WAV, at one rate (Hz), mono or stereo, without dithering."""

    rate_hz: Annotated[int, Meta(ge=4_000, le=192_000)]
    channels: Annotated[int, Meta(ge=1, le=2)]


class VideoRecipe(_Recipe, frozen=True, kw_only=True):
    """Frames of a video, as an animation that the engine decodes itself.

    `select` says which: `even` takes `frames` evenly spaced ones, first and last included (fewer when the video has
    fewer); `every` the first and each `every`-th after it; `times` for each of `times_ms` the first frame that begins
    then or later; `scenes` the first and each that differs from the one before it by a mean of `scene_threshold` levels
    (of 255) or more. Of the last three, more than `frames` are refused, never thinned.

    `max_side_px` bounds the longer side, never enlarging; `frame_delay_ms` is between frames of the result, whatever
    the video's rate: engines write timestamps into the prompt, so it is part of what the model sees. `allow_square`
    false takes a little height off a square result: at some frame budgets the engine mistakes a frame that becomes one
    token for a placeholder.
    """

    select: Literal["even", "every", "times", "scenes"]
    frames: Annotated[int, Meta(ge=1, le=MAX_FRAMES)]
    every: Annotated[int, Meta(ge=1, le=18_000)] | None
    times_ms: tuple[Annotated[int, Meta(ge=0, le=86_400_000)], ...] | None
    scene_threshold: Annotated[int, Meta(ge=1, le=255)] | None
    max_side_px: Annotated[int, Meta(ge=SIDE_MIN_PX, le=VIDEO_SIDE_MAX_PX)]
    frame_delay_ms: Annotated[int, Meta(ge=10, le=DELAY_MAX_MS)]
    container: Literal["gif"]
    allow_square: bool


class Derivatives(_Recipe, frozen=True, kw_only=True):
    """What a release needs made of each kind of medium; null takes the original as it is."""

    image: ImageRecipe | None
    audio: AudioRecipe | None
    video: VideoRecipe | None


def recipe_findings(recipe: ImageRecipe | AudioRecipe | VideoRecipe) -> Iterator[Rule]:
    """What is wrong with a recipe beyond its types."""
    if isinstance(recipe, ImageRecipe):
        yield from _image(recipe)
    elif isinstance(recipe, VideoRecipe):
        yield from _video(recipe)


def _image(recipe: ImageRecipe) -> Iterator[Rule]:
    if recipe.format == "png" and recipe.quality is not None:
        yield "quality", "derivation-quality", f"expected null for png, which is lossless, got {recipe.quality}"
    if recipe.format == "jpeg" and recipe.quality is None:
        yield "quality", "derivation-quality", "expected 1 to 95 for jpeg, got null"
    if recipe.format == "jpeg" and recipe.alpha == "keep":
        yield "alpha", "derivation-alpha", "expected flatten for jpeg, which has no alpha, got keep"
    if (recipe.alpha == "flatten") != (recipe.background is not None):
        expected, got = ("RRGGBB", "null") if recipe.background is None else ("null", recipe.background)
        yield "background", "derivation-background", f"expected {expected} for {recipe.alpha}, got {got}"


def _video(recipe: VideoRecipe) -> Iterator[Rule]:
    given = {"every": recipe.every, "times": recipe.times_ms, "scenes": recipe.scene_threshold}
    fields = {"every": "every", "times": "times_ms", "scenes": "scene_threshold"}
    for select, value in given.items():
        if (recipe.select == select) != (value is not None):
            expected, got = ("a value", "null") if value is None else ("null", "a value")
            yield fields[select], "derivation-select", f"expected {expected} for select {recipe.select}, got {got}"
    times = recipe.times_ms
    if times is not None and not 1 <= len(times) <= recipe.frames:
        yield "times_ms", "derivation-times", f"expected 1 to {recipe.frames} times (as frames says), got {len(times)}"
    if times is not None and list(times) != sorted(set(times)):
        yield "times_ms", "derivation-times", "expected rising times, got one that is not later than the one before"
    if recipe.frame_delay_ms % 10:
        reason = f"expected tens of ms, which is what a GIF can say, got {recipe.frame_delay_ms}"
        yield "frame_delay_ms", "derivation-delay", reason
