"""Pictures and clips of the calibration world. Every draw comes from the generator that the caller gives.

The order of draws is part of the format: with it, a case's media have the digests that the golden cases name
(Pillow 13 encoders). Sizes are pixels, angles radians.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

COLOURS: dict[str, Colour] = {
    "red": (215, 30, 30),
    "green": (30, 160, 60),
    "blue": (30, 60, 215),
    "yellow": (240, 220, 30),
    "white": (248, 248, 248),
    "black": (12, 12, 12),
    "purple": (135, 40, 165),
    "orange": (245, 135, 20),
}
SHAPES = ("circle", "square", "triangle", "cross")
DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
CLIP_FRAMES = 8
FRAME_MS = 120

_NAMES = tuple(COLOURS)
_ARM = 0.34  # half the width of a cross's arm, of its radius
_OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)),
    "triangle": ((0, -1.05), (1, 0.8), (-1, 0.8)),
    "cross": (
        (-_ARM, -1),
        (_ARM, -1),
        (_ARM, -_ARM),
        (1, -_ARM),
        (1, _ARM),
        (_ARM, _ARM),
        (_ARM, 1),
        (-_ARM, 1),
        (-_ARM, _ARM),
        (-1, _ARM),
        (-1, -_ARM),
        (-_ARM, -_ARM),
    ),
}
_CONTRAST = 110  # distance in RGB between a shape and every colour of its background
_BACKGROUND_TRIES = 200
_PLACE_TRIES = 400


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture before a file format was drawn for it; `shapes` are the (colour, shape) on it."""

    image: Image.Image
    shapes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture; `shapes` are (colour, shape) of what is on it; `jpeg_quality` None means PNG."""

    image: Image.Image
    shapes: tuple[tuple[str, str], ...]
    jpeg_quality: int | None

    @property
    def media_type(self) -> str:
        """The media type of `encode`'s bytes."""
        return "image/png" if self.jpeg_quality is None else "image/jpeg"

    def encode(self) -> bytes:
        """The picture's file: PNG or JPEG as drawn."""
        out = io.BytesIO()
        if self.jpeg_quality is None:
            self.image.save(out, "PNG", compress_level=1)
        else:
            self.image.save(out, "JPEG", quality=self.jpeg_quality)
        return out.getvalue()


@dataclass(frozen=True, slots=True)
class Clip:
    """Frames of a square that moves one way; `FRAME_MS` each."""

    frames: tuple[Image.Image, ...]
    direction: str

    def encode(self) -> bytes:
        """The clip's file: an animated GIF, the one video form that the engine decodes itself."""
        out = io.BytesIO()
        first, *rest = self.frames
        first.save(out, "GIF", save_all=True, append_images=rest, duration=FRAME_MS, loop=0)
        return out.getvalue()


def draw_picture(rng: np.random.Generator, scene: Scene) -> Picture:
    """`scene` with a file format: PNG, or JPEG of quality 70-95."""
    jpeg_quality = None if rng.integers(2) else int(rng.integers(70, 96))
    return Picture(scene.image, scene.shapes, jpeg_quality)


def draw_scene(rng: np.random.Generator, count: int = 1, shape: str | None = None) -> Scene:
    """A scene with `count` shapes that do not overlap; `shape` fixes their form."""
    width, height = (int(side) for side in np.exp(rng.uniform(math.log(64), math.log(640.99), 2)))
    placed = None
    while placed is None:
        placed = _place(rng, count, (width, height), shape)
    fills = [_jittered(rng, COLOURS[colour]) for _, (colour, _) in placed]
    image = _background(rng, (width, height), fills)
    for (spot, (_, form)), fill in zip(placed, fills, strict=True):
        _draw_shape(ImageDraw.Draw(image), form, spot, float(rng.uniform(-0.2, 0.2)), fill)
    return Scene(image, tuple(item for _, item in placed))


_Spot = tuple[float, float, float]


def _place(
    rng: np.random.Generator, count: int, size: tuple[int, int], shape: str | None
) -> list[tuple[_Spot, tuple[str, str]]] | None:
    """Spots (x, y, radius) with what stands there, or None when the shapes did not fit."""
    width, height = size
    if count == 1:
        base = rng.uniform(0.26, 0.44) * min(width, height)
    else:
        base = min(0.36 * min(width, height), rng.uniform(0.12, 0.17) * math.sqrt(width * height))
    placed: list[tuple[_Spot, tuple[str, str]]] = []
    for _ in range(count):
        for _ in range(_PLACE_TRIES):
            radius = base * rng.uniform(0.85, 1)
            x, y = rng.uniform(radius + 1, width - radius - 1), rng.uniform(radius + 1, height - radius - 1)
            if all(math.hypot(x - a, y - b) > 1.25 * (radius + r) for (a, b, r), _ in placed):
                break
        else:
            return None
        colour = _NAMES[rng.integers(8)]
        placed.append(((x, y, radius), (colour, shape or SHAPES[rng.integers(4)])))
    return placed


def _draw_shape(draw: ImageDraw.ImageDraw, shape: str, spot: _Spot, angle: float, fill: Colour) -> None:
    x, y, radius = spot
    if shape == "circle":
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
        return
    cos, sin = math.cos(angle), math.sin(angle)
    draw.polygon(
        [(x + radius * (px * cos - py * sin), y + radius * (px * sin + py * cos)) for px, py in _OUTLINES[shape]],
        fill=fill,
    )


def _jittered(rng: np.random.Generator, colour: Colour) -> Colour:
    red, green, blue = (int(v) for v in np.clip(np.array(colour) + rng.integers(-14, 15, 3), 0, 255))
    return red, green, blue


def _distance(a: Colour, b: Colour) -> float:
    return float(np.linalg.norm(np.array(a, float) - np.array(b, float)))


def _background(rng: np.random.Generator, size: tuple[int, int], avoid: list[Colour]) -> Image.Image:
    """Plain, a linear gradient or faint noise; never close to a colour in `avoid`."""
    width, height = size
    kind, start, end = _background_colours(rng, avoid)
    if kind == 0:
        return Image.new("RGB", size, start)
    if kind == 1:
        steps = np.linspace(0, 1, width if rng.integers(2) else height)
        ramp = np.array(start) * (1 - steps[:, None]) + np.array(end) * steps[:, None]
        pixels = np.broadcast_to(ramp[None] if len(steps) == width else ramp[:, None], (height, width, 3))
        return Image.fromarray(np.ascontiguousarray(pixels).astype(np.uint8))
    coarse = rng.integers(-10, 11, (height // 4 + 1, width // 4 + 1, 1))
    noise = coarse.repeat(4, 0).repeat(4, 1)[:height, :width]
    return Image.fromarray(np.clip(np.array(start)[None, None] + noise, 0, 255).astype(np.uint8))


def _background_colours(rng: np.random.Generator, avoid: list[Colour]) -> tuple[int, Colour, Colour]:
    """(0 plain, 1 gradient or 2 noise; first colour; last colour)."""
    kind = 0
    for _ in range(_BACKGROUND_TRIES):
        source = rng.integers(3)
        if source == 0:
            start = _jittered(rng, COLOURS[_NAMES[rng.integers(8)]])
        elif source == 1:
            start = (int(rng.integers(256)),) * 3
        else:
            start = _triple(rng.integers(0, 256, 3))
        kind = int(rng.integers(3))
        end = _triple(np.clip(np.array(start) + rng.integers(-30, 31, 3), 0, 255)) if kind == 1 else start
        if all(min(_distance(start, colour), _distance(end, colour)) > _CONTRAST for colour in avoid):
            return kind, start, end
    grey = max(range(0, 256, 8), key=lambda level: min(_distance((level,) * 3, colour) for colour in avoid))
    return kind, (grey,) * 3, (grey,) * 3


def _triple(values: npt.NDArray[np.integer[Any]]) -> Colour:
    red, green, blue = (int(value) for value in values)
    return red, green, blue


def draw_clip(rng: np.random.Generator, direction: str) -> Clip:
    """A square that crosses 35-65 % of the picture in `direction`.

    Never exactly square: a square frame can become a single soft token, which engine 0.9.5 takes for a raw
    placeholder ("8 frames, 15 placeholder ranges").
    """
    width, height = (int(side) for side in rng.integers(64, 257, 2))
    if max(width, height) > 2 * min(width, height):
        width, height = (width, width * 3 // 4) if width > height else (height * 3 // 4, height)
    if width == height:
        height -= 8
    fill = _jittered(rng, COLOURS[_NAMES[rng.integers(8)]])
    ground = _triple(np.array(_background(rng, (8, 8), [fill]))[0, 0])
    dx, dy = DIRECTIONS[direction]
    radius = rng.uniform(0.14, 0.2) * min(width, height)
    span, across = (width, height) if dx else (height, width)
    run = min(rng.uniform(0.35, 0.65) * span, span - 2 * radius - 4)
    start = rng.uniform(radius + 1, span - radius - 1 - run)
    level = rng.uniform(radius + 1, across - radius - 1)
    frames = []
    for index in range(CLIP_FRAMES):
        along = start + run * index / (CLIP_FRAMES - 1)
        if dx + dy < 0:
            along = 2 * start + run - along
        x, y = (along, level) if dx else (level, along)
        frame = Image.new("RGB", (width, height), ground)
        ImageDraw.Draw(frame).rectangle((x - radius, y - radius, x + radius, y + radius), fill=fill)
        frames.append(frame)
    return Clip(tuple(frames), direction)
