"""The structures of PNG, JPEG and GIF, walked to where they end."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from contracts.errors import MediaRejected
from intake.children.layout import Layout, truncated
from intake.children.source import Source

_COLOUR_TYPE_AT, _INDEXED = 25, b"\3"
_C2PA_GIF = b"C2PA_GIF"
_GIF_TRAILER, _GIF_IMAGE, _GIF_EXTENSION, _GIF_APPLICATION = 0x3B, 0x2C, 0x21, 0xFF
EOI, SOS, _APP2, _APP11 = 0xD9, 0xDA, 0xE2, 0xEB
_MARKERS_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_SCAN_CHUNK = 1 << 16
_PIECE = 1 << 18


def png(source: Source) -> Layout:
    """PNG 3rd ed. §5.3: chunks until IEND. A C2PA manifest is a `caBX` chunk; of an animation each picture has an
    `fcTL`, save one that is shown where animations are not.

    Raises MediaRejected, as `png_chunks` does, where a picture has no data, or no palette though it needs one
    (§11.2.2), and where a chunk's checksum does not match (§5.3).
    """
    layout, pictures, is_announced, has_palette = Layout(), 0, False, False
    for kind, begin, length in png_chunks(source):
        if _is_damaged(source, begin, length):
            name = kind.decode("ascii", "replace")
            raise MediaRejected("image-undecodable", f"the checksum of {name} at byte {begin - 8} does not match")
        if kind == b"IDAT" or (kind == b"fdAT" and pictures):
            if not (pictures or has_palette) and source.at(_COLOUR_TYPE_AT, 1) == _INDEXED:
                raise MediaRejected("image-undecodable", f"no palette before the PNG's data at byte {begin}")
            pictures += is_announced or not pictures
            is_announced = False
        elif (kind == b"fcTL" and is_announced) or (kind == b"IEND" and (is_announced or not pictures)):
            raise MediaRejected("image-truncated", f"no data of picture {pictures + 1} before byte {begin}")
        elif kind == b"caBX":
            layout.add("c2pa_bytes", length)
        is_announced = is_announced or kind == b"fcTL"
        has_palette = has_palette or kind == b"PLTE"
        layout.end = begin + length + 4
    layout.least["frames"] = pictures
    return layout


def png_chunks(source: Source) -> Iterator[tuple[bytes, int, int]]:
    """Name, and offset and length of the data, of each chunk up to IEND. Raises MediaRejected `image-truncated`."""
    offset, kind = 8, b""
    while kind != b"IEND":
        head = source.at(offset, 8)
        if len(head) < 8:
            raise truncated("image", "the next PNG chunk", offset, 12, source)
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if offset + 12 + length > source.size_bytes:
            raise truncated("image", "a PNG chunk", offset, 12 + length, source)
        yield kind, offset + 8, length
        offset += 12 + length


def _is_damaged(source: Source, begin: int, length: int) -> bool:
    """Whether a chunk's checksum, which is of its name and data, is not theirs."""
    found = 0
    for place in range(begin - 4, begin + length, _PIECE):
        found = zlib.crc32(source.at(place, min(_PIECE, begin + length - place)), found)
    return found.to_bytes(4, "big") != source.at(begin + length, 4)


class Segment(NamedTuple):
    """A JPEG segment from its marker on, a scan with its entropy-coded data; `marker` None: bytes that are none."""

    marker: int | None
    begin: int
    end: int


def jpeg(source: Source) -> Layout:
    """ISO/IEC 10918-1 §B.1: segments and scans until EOI, and the further pictures that an MPF index announces.

    Bytes between segments that are none are `skipped_bytes`. A C2PA manifest is JUMBF in APP11.
    """
    layout = Layout()
    for segment in jpeg_segments(source):
        if segment.marker is None:
            layout.add("skipped_bytes", segment.end - segment.begin)
        elif segment.marker == EOI:
            layout.end = segment.end
        elif segment.marker == _APP11 and source.at(segment.begin + 4, 2) == b"JP":
            layout.add("c2pa_bytes", segment.end - segment.begin - 4)
    return layout


def jpeg_segments(source: Source) -> Iterator[Segment]:
    """The segments of all pictures, one after the other, each picture's last one being EOI; SOI and markers that stand
    alone are left out. Raises MediaRejected `image-truncated`."""
    offset = 0
    while True:
        has_more = False
        for segment in _picture(source, offset):
            yield segment
            has_more = has_more or (segment.marker == _APP2 and source.at(segment.begin + 4, 4) == b"MPF\0")
        following = source.at(segment.end, _SCAN_CHUNK).lstrip(b"\0") if has_more else b""
        if following[:2] != b"\xff\xd8":
            return
        offset = min(segment.end + _SCAN_CHUNK, source.size_bytes) - len(following)


def _picture(source: Source, offset: int) -> Iterator[Segment]:
    """The segments of the picture at `offset`."""
    place = offset + 2
    while True:
        head = source.at(place, 4)
        if len(head) < 2:
            raise truncated("image", "the next JPEG marker", place, 2, source)
        marker = head[1]
        if head[0] != 0xFF:  # decoders skip what is no marker
            end = _scan_end(source, place)
            yield Segment(None, place, end)
        elif marker == EOI:
            yield Segment(EOI, place, place + 2)
            return
        elif marker == 0xFF or marker in _MARKERS_ALONE:
            end = place + (1 if marker == 0xFF else 2)
        else:
            end = _segment_end(source, place, head)
            yield Segment(marker, place, end)
        place = end


def _segment_end(source: Source, place: int, head: bytes) -> int:
    length = int.from_bytes(head[2:4], "big")
    end = place + 2 + length
    if len(head) < 4 or end > source.size_bytes:
        raise truncated("image", "a JPEG segment", place, max(2 + length, 4), source)
    return _scan_end(source, end) if head[1] == SOS else end


def _scan_end(source: Source, offset: int) -> int:
    """The next marker that is no restart: entropy-coded data has each 0xFF stuffed."""
    while data := source.at(offset, _SCAN_CHUNK):
        if match := _MARKER.search(data):
            return offset + match.start()
        offset += len(data) - 1 if len(data) > 1 and data[-1] == 0xFF else len(data)
        if offset >= source.size_bytes - 1:
            break
    raise truncated("image", "a JPEG scan", offset, 2, source)


def gif(source: Source) -> Layout:
    """GIF89a §18-27. Zeros between blocks, which some writers leave, are `skipped_bytes`."""
    flags = source.at(10, 1)
    if not flags:
        raise truncated("image", "the GIF screen descriptor", 6, 7, source)
    layout, offset = Layout(), 13 + _colour_table(flags[0])
    while block := source.at(offset, 2):
        begin, kind = offset, block[0]
        if kind == _GIF_TRAILER:
            layout.end = offset + 1
            return layout
        offset = _gif_block_end(source, offset, kind)
        if kind == _GIF_IMAGE:
            layout.least["frames"] = layout.least.get("frames", 0) + 1
        elif not kind:
            layout.add("skipped_bytes", 1)
        elif block[1:] == bytes([_GIF_APPLICATION]) and source.at(begin + 3, 8) == _C2PA_GIF:
            layout.add("c2pa_bytes", offset - begin)
    raise truncated("image", "the next GIF block", offset, 1, source)


def _gif_block_end(source: Source, offset: int, kind: int) -> int:
    if not kind:
        return offset + 1
    if kind == _GIF_EXTENSION:
        return gif_data_end(source, offset + 2)
    if kind != _GIF_IMAGE:
        raise MediaRejected("image-undecodable", f"no GIF block begins with {kind:#04x}, as byte {offset} does")
    descriptor = source.at(offset, 10)
    table = _colour_table(descriptor[9]) if len(descriptor) == 10 else 0
    return gif_data_end(source, offset + 11 + table)


def _colour_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def gif_data_end(source: Source, offset: int) -> int:
    """Where the data sub-blocks end that begin at `offset` (§15-16). Raises MediaRejected `image-truncated`."""
    source.seek(offset)
    while length := source.read(1):
        if not length[0]:
            return source.tell()
        offset = source.seek(length[0], 1)
    raise truncated("image", "the next GIF data block", offset, 1, source)
