"""Whether a JPEG's scans hold all their blocks: Pillow fills what is missing with grey and says nothing of it.

Two decoders judge, as each lets pass what the other sees. libjpeg warns where entropy-coded data ends before its
picture does, or after it, and simplejpeg takes its warnings for errors. FFmpeg's errors are runs of coefficients beyond
their block and of blocks beyond their scan, as damage makes them where the number of blocks happens to be right. Every
coefficient is decoded; pixels are made at an eighth of the size, as nobody looks at them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import av
import numpy as np
import simplejpeg

from contracts.errors import MediaRejected
from intake.children.image_lengths import EOI, SOS, jpeg_segments
from intake.children.jpeg_frame import Frame
from intake.children.source import Source

_SOI = b"\xff\xd8"
_DECODED = frozenset({*range(0xC0, 0xD0), *range(EOI, 0xE0)})
"""Markers of tables, frames and scans (ISO/IEC 10918-1 table B.1). Application segments and comments say nothing about
blocks, and an odd one among them makes libjpeg warn as well."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SMALLEST, _LOWEST = 8, "3"  # the largest reduction: libjpeg's by 8, FFmpeg's by 2 to the third
_EARLY = "premature end"
_PADDED = re.compile("([0-9]+) extraneous bytes before marker 0xd9")
_PADDING = 16
"""Bytes that may stand between the last block and EOI: cameras were seen to write up to 11. What damage leaves over is
as long as it happens to be, mostly hundreds of bytes."""
_COLOURS = {1: "GRAY", 3: "GRAY", 4: "CMYK"}  # by number of components: grey of three takes no chroma to pixels


def prepare() -> None:
    """Load what decoding loads on first use. Call once, before the confinement."""
    picture = simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8))
    if _warning(picture, "GRAY") or not _is_valid(picture):
        raise RuntimeError("the JPEG decoders do not decode")


def check_scans(source: Source, admit: Callable[[tuple[int, int]], None]) -> int:
    """Decode every picture of the file, each after `admit` was asked about its size (width, height). Returns how many
    bytes of padding follow the pictures' last blocks.

    Raises what `admit` raises, MediaRejected `image-truncated` where blocks or scans are missing, else
    `image-undecodable`, with libjpeg's words, which hold nothing of the file.
    """
    padding, parts, frame = 0, [_SOI], None
    for marker, begin, end in jpeg_segments(source):
        if marker not in _DECODED:
            continue
        parts.append(source.at(begin, end - begin))
        if marker in _FRAMES:
            frame = Frame(parts[-1])
            admit((frame.width, frame.height))
        elif marker == SOS and frame is not None:
            frame.cover(parts[-1])
        elif marker == EOI:
            padding += _check(b"".join(parts), frame, end)
            parts, frame = [_SOI], None
    return padding


def _check(picture: bytes, frame: Frame | None, end: int) -> int:
    colours = None if frame is None else _COLOURS.get(len(frame.components))
    if frame is None or colours is None:
        count = 0 if frame is None else len(frame.components)
        raise MediaRejected("image-undecodable", f"a JPEG of {count} components, expected 1, 3 or 4")
    frame.check(end)
    said = _warning(picture, colours)
    padding = int(padded[1]) if (padded := _PADDED.search(said)) else 0
    if 0 < padding <= _PADDING:  # a warning hides those after it
        picture = picture[: -padding - 2] + picture[-2:]
        said = _warning(picture, colours)
    if not said and frame.is_huffman and not _is_valid(picture):
        said = "runs that lead out of their block or scan"
    if said:
        rule = "image-truncated" if _EARLY in said else "image-undecodable"
        raise MediaRejected(rule, f"the picture that ends at byte {end}: {said}")
    return padding


def _warning(picture: bytes, colours: str) -> str:
    """What libjpeg says first of a picture; nothing of a whole one."""
    try:
        simplejpeg.decode_jpeg(picture, colours, True, True, 1, 1, _SMALLEST)
    except ValueError as error:
        return str(error) or "no picture"
    return ""


def _is_valid(picture: bytes) -> bool:
    """Whether FFmpeg finds nothing wrong with a picture. One of a kind that it does not know may be valid."""
    context = av.CodecContext.create("mjpeg", "r")
    context.thread_type, context.thread_count = "NONE", 1
    context.options = {"err_detect": "explode", "lowres": _LOWEST}
    try:
        return len([*context.decode(av.Packet(picture)), *context.decode(None)]) == 1
    except av.error.PatchWelcomeError:
        return True
    except av.error.InvalidDataError:
        return False
