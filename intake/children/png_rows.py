"""Whether a PNG holds all its rows: Pillow takes a stream that ends early for a whole picture, the rest of it zeros."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from PIL import Image

from contracts.errors import MediaRejected
from intake.children.source import Source

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # PNG 3rd ed. §11.2.1, by colour type
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Of each pass the first column and row, and the steps between columns and rows (§8.1)."""
_PIECE = 1 << 18


def check_rows(source: Source, image: Image.Image) -> None:
    """Raises MediaRejected `image-truncated` when the first picture's stream ends before its rows do.

    `image` is the first frame as it was decoded: a last row that holds anything was there, and nothing is unpacked
    a second time. Rows that are interlaced come in another order.
    """
    interlaced = source.at(28, 1) != b"\0"
    if not interlaced and image.crop((0, image.height - 1, image.width, image.height)).tobytes().strip(b"\0"):
        return
    needed, found = _needed(source.at(16, 10), interlaced), 0
    place = source.tell()
    for piece in _unpacked(source):
        found += piece
        if found >= needed:
            break
    source.seek(place)
    if found < needed:
        raise MediaRejected("image-truncated", f"the rows of the picture need {needed} bytes, {found} are there")


def _needed(header: bytes, interlaced: bool) -> int:
    """Bytes of all rows, each with its filter's name before it (§7.2, §8.1)."""
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    bits = header[8] * _CHANNELS[header[9]]
    total = 0
    for left, top, across, down in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def _unpacked(source: Source) -> Iterator[int]:
    """How many bytes the IDAT chunks hold, piece by piece."""
    unpacker, place = zlib.decompressobj(), 8
    while len(head := source.at(place, 8)) == 8 and head[4:] != b"IEND":
        length = int.from_bytes(head[:4], "big")
        if head[4:] == b"IDAT":
            for begin in range(place + 8, place + 8 + length, _PIECE):
                packed = source.at(begin, min(_PIECE, place + 8 + length - begin))
                while packed and not unpacker.eof:
                    yield len(unpacker.decompress(packed, _PIECE))
                    packed = unpacker.unconsumed_tail
        place += 12 + length
    yield len(unpacker.flush())
