"""The derivative of a video: evenly spaced frames as a GIF that an engine decodes without help.

The file is written block by block (GIF89a), because Pillow's own animation writer merges equal neighbours and crops
to what changed: a still scene would lose its frames, and the recorded frame set would not be the one in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from PIL import GifImagePlugin, Image

from contracts.derivation import Derivation

_LOOP_FOREVER = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
_KEPT_MAX = 128  # candidates held while the length of the video is unknown: 256 x 256 RGB each is 25 MB
_COLOURS = 256
TOOLS = f"av {version('av')}, pillow {version('pillow')}"


class Thinner:
    """Keeps candidate frames of a video whose length is not known until its end, in one pass and bounded memory.

    Every `stride`-th frame is kept, reduced to the size of the result; when too many are, every other one is dropped
    and the stride doubles. Up to 128 frames that is every frame; beyond, a position is off by at most half a stride.
    """

    def __init__(self, derivation: Derivation) -> None:
        self._derivation = derivation
        self._kept: dict[int, Image.Image] = {}
        self._stride = 1
        self._seen = 0
        self._size: tuple[int, int] | None = None

    def take(self, index: int, render: Callable[[], Image.Image]) -> None:
        """Take frame `index`; `render` is only called for a frame that is kept."""
        self._seen = index + 1
        if index % self._stride:
            return
        if len(self._kept) >= _KEPT_MAX:
            self._stride *= 2
            self._kept = {kept: image for kept, image in self._kept.items() if kept % self._stride == 0}
            if index % self._stride:
                return
        image = render()
        self._size = self._size or self._derivation.fitted(image.width, image.height)
        if image.size != self._size:
            image = image.resize(
                self._size, Image.Resampling.BOX if _halves(image, self._size) else Image.Resampling.BICUBIC
            )
        self._kept[index] = image.convert("RGB")

    def chosen(self) -> list[tuple[int, Image.Image]]:
        """The frames of the result with their indices in the video, in order."""
        candidates = sorted(self._kept)
        wanted = self._derivation.positions(self._seen)
        indices = sorted({min(candidates, key=lambda kept, at=at: (abs(kept - at), kept)) for at in wanted})  # type: ignore[misc]
        return [(index, self._kept[index]) for index in indices]


def frames_to_gif(thinner: Thinner, derivation: Derivation, orientation: int) -> tuple[bytes, dict[str, Any]]:
    """The GIF and its transformation (name, parameters, frame indices, tools): what a locator says about it.

    `orientation` is what was applied to the frames already (EXIF, 1 to 8)."""
    chosen = thinner.chosen()
    images = [image for _, image in chosen]
    transformation = {
        "name": "frames-to-gif",
        "frames": len(chosen),
        "positions": [index for index, _ in chosen],
        "width": images[0].width,
        "height": images[0].height,
        "delay_ms": derivation.frame_delay_ms,
        "max_side_px": derivation.max_side_px,
        "orientation_applied": orientation,
        "tool": TOOLS,
    }
    return write_gif(images, derivation.frame_delay_ms), transformation


def fits_already(findings: dict[str, Any], derivation: Derivation) -> bool:
    """Whether a video is already what the derivation would make of it, frame for frame."""
    size = (findings["width"], findings["height"])
    return (
        findings["format"] == derivation.container
        and findings["frames"] <= derivation.frames
        and findings.get("delay_ms") == derivation.frame_delay_ms
        and derivation.fitted(*size) == size
    )


def write_gif(images: Sequence[Image.Image], delay_ms: int) -> bytes:
    """A GIF of whole frames (RGB, one size), each with a palette of its own, none merged. Deterministic."""
    width, height = images[0].size
    control = b"\x21\xf9\x04\x04" + struct.pack("<H", delay_ms // 10) + b"\x00\x00"  # disposal: leave in place
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0, 0, 0), _LOOP_FOREVER]
    for image in images:
        reduced = image.quantize(_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        parts += [control, *GifImagePlugin.getdata(reduced, include_color_table=True)]
    return b"".join([*parts, b"\x3b"])


def _halves(image: Image.Image, size: tuple[int, int]) -> bool:
    return image.width >= 2 * size[0] and image.height >= 2 * size[1]
