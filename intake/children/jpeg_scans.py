"""Whether a JPEG's scans hold all their blocks: Pillow fills what is missing with grey and says nothing of it.

libjpeg warns where entropy-coded data ends before its picture does, or is none, and simplejpeg takes its warnings for
errors. Every coefficient is decoded; pixels are made at an eighth of the size, as nobody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import numpy as np
import simplejpeg

from contracts.errors import MediaRejected
from intake.children.image_lengths import EOI, jpeg_segments
from intake.children.source import Source

_SOI = b"\xff\xd8"
_DECODED = frozenset({*range(0xC0, 0xD0), *range(EOI, 0xE0)})
"""Markers of tables, frames and scans (ISO/IEC 10918-1 table B.1). Application segments and comments say nothing about
blocks, and an odd one among them makes libjpeg warn as well."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_FRAME = Struct(">HHB")  # height, width, number of components (§B.2.2)
_SMALLEST = 8  # libjpeg's largest reduction
_EARLY = "premature end"
_COLOURS = {1: "GRAY", 3: "GRAY", 4: "CMYK"}  # by number of components: grey of three takes no chroma to pixels


def prepare() -> None:
    """Load what decoding loads on first use. Call once, before the confinement."""
    simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)), "GRAY", min_factor=_SMALLEST)


def check_scans(source: Source, admit: Callable[[tuple[int, int]], None]) -> None:
    """Decode every picture of the file, each after `admit` was asked about its size (width, height).

    Raises what `admit` raises, MediaRejected `image-truncated` where blocks are missing, else `image-undecodable`, with
    libjpeg's words, which hold nothing of the file.
    """
    parts, components = [_SOI], 0
    for marker, begin, end in jpeg_segments(source):
        if marker not in _DECODED:
            continue
        parts.append(source.at(begin, end - begin))
        if marker in _FRAMES:
            height, width, components = _FRAME.unpack(parts[-1][5:10].ljust(5, b"\0"))
            admit((width, height))
        if marker == EOI:
            _check(b"".join(parts), components, end)
            parts, components = [_SOI], 0


def _check(picture: bytes, components: int, end: int) -> None:
    colours = _COLOURS.get(components)
    if colours is None:
        raise MediaRejected("image-undecodable", f"a JPEG of {components} components, expected 1, 3 or 4")
    try:
        simplejpeg.decode_jpeg(picture, colours, True, True, 1, 1, _SMALLEST)
    except ValueError as error:
        said = str(error)
        rule = "image-truncated" if _EARLY in said else "image-undecodable"
        raise MediaRejected(rule, f"the picture that ends at byte {end}: {said}") from error
