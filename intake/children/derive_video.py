"""The derivative of a video: chosen frames as a GIF that an engine decodes without help.

The file is written block by block (GIF89a), because Pillow's own animation writer merges equal neighbours and crops
to what changed: a still scene would lose its frames, and the recorded frame set would not be the one in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from PIL import GifImagePlugin, Image

from contracts.artifact import MediaType
from contracts.derivation import VideoDerivation
from intake.children.bare import is_bare
from intake.children.derive_frames import Selection
from intake.children.source import Source

_LOOP_FOREVER = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
_COLOURS = 256
TOOLS = f"av {version('av')}, pillow {version('pillow')}"


def frames_to_gif(chosen: Selection, derivation: VideoDerivation, orientation: int) -> tuple[bytes, dict[str, Any]]:
    """The GIF and its transformation (name, parameters, frame indices, tools): what a locator says about it.

    `orientation` is what was applied to the frames already (EXIF, 1 to 8). Raises MediaRejected `derivative-times`."""
    frames = chosen.chosen()
    images = [image for _, image in frames]
    transformation = {
        **derivation.fixed(),
        **chosen.facts(),
        "frames": len(frames),
        "positions": [index for index, _ in frames],
        "width": images[0].width,
        "height": images[0].height,
        "orientation_applied": orientation,
        "tool": TOOLS,
    }
    return write_gif(images, derivation.frame_delay_ms), transformation


def fits_already(findings: dict[str, Any], source: Source, media_type: MediaType, derivation: VideoDerivation) -> bool:
    """Whether a video is already what the derivation would make of it, frame for frame and with nothing beside."""
    size = (findings["width"], findings["height"])
    takes_all = derivation.select == "even" or derivation.every == 1
    return (
        takes_all
        and findings["format"] == derivation.container
        and findings["frames"] <= derivation.frames
        and findings.get("delay_ms") == derivation.frame_delay_ms
        and derivation.fitted(*size) == size
        and is_bare(media_type.name, source)
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
