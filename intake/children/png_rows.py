"""Whether a PNG holds all its rows: Pillow takes a stream that ends early for a whole picture, the rest of it zeros."""

from __future__ import annotations

import zlib

from PIL import Image

from contracts.errors import MediaRejected
from intake.children.image_lengths import png_chunks
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
    header = source.at(16, 13)
    if not header[12] and image.crop((0, image.height - 1, image.width, image.height)).tobytes().strip(b"\0"):
        return
    place, rows = source.tell(), _Rows(header)
    for kind, begin, length in png_chunks(source):
        if kind == b"IDAT":
            rows.unpack(source, begin, length)
    source.seek(place)
    rows.check(1)


def check_animation(source: Source) -> None:
    """Raises MediaRejected `image-truncated` when the stream of a picture behind the first one ends before its rows do
    (§11.3.5). To be called when all were decoded: it unpacks them again, as frames are seen laid over each other."""
    header, rows, number, size = source.at(16, 13), None, 0, b""
    for kind, begin, length in png_chunks(source):
        if kind == b"fdAT":
            rows = rows or _Rows(size + header[8:])
            rows.unpack(source, begin + 4, length - 4)
        elif kind == b"fcTL":
            if rows is not None:
                rows.check(number)
            rows, number, size = None, number + 1, source.at(begin + 4, 8)
    if rows is not None:
        rows.check(number)


class _Rows:
    """The rows of one picture: what its header (width, height, depth, colour type, …, interlacing) needs, and what is
    there. Nothing is unpacked beyond that."""

    def __init__(self, header: bytes) -> None:
        self._left = self._needed = _needed(header, bool(header[12]))
        self._unpacker = zlib.decompressobj()

    def unpack(self, source: Source, begin: int, length: int) -> None:
        """Count what the bytes from `begin` on unpack to."""
        for place in range(begin, begin + length, _PIECE):
            packed = source.at(place, min(_PIECE, begin + length - place))
            while packed and self._left > 0 and not self._unpacker.eof:
                self._left -= len(self._unpacker.decompress(packed, _PIECE))
                packed = self._unpacker.unconsumed_tail

    def check(self, number: int) -> None:
        """Raises MediaRejected where rows of picture `number` are missing."""
        self._left -= len(self._unpacker.flush()) if self._left > 0 else 0
        if self._left > 0:
            reason = f"the rows of picture {number} need {self._needed} bytes, {self._needed - self._left} are there"
            raise MediaRejected("image-truncated", reason)


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
