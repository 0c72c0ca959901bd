"""Where a container says that it ends, against where the bytes end.

Decoders differ in what they forgive: some answer a file that was cut with fewer frames and no error. So containers
that state lengths are walked first, and one that claims more than there is is refused with the place. What follows
the end is counted. Sources as in contracts/signatures.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from contracts.errors import MediaRejected
from intake.children.source import Source

_OGG_LAST_PAGE = 0x04
_GIF_TRAILER, _GIF_IMAGE, _GIF_EXTENSION = 0x3B, 0x2C, 0x21


def end_of(media_type: str, source: Source) -> int | None:
    """The offset at which the container ends, or None when its format states no length.

    Raises MediaRejected `<kind>-truncated` when the file ends before it.
    """
    walk = _WALKS.get(media_type)
    return None if walk is None else walk(source)


def _truncated(kind: str, what: str, offset: int, claimed: int, source: Source) -> MediaRejected:
    left = max(source.size_bytes - offset, 0)
    return MediaRejected(f"{kind}-truncated", f"{what} at byte {offset} needs {claimed} bytes, {left} are there")


def _png(source: Source) -> int:
    offset = 8
    while True:
        head = source.at(offset, 8)
        if len(head) < 8:
            raise _truncated("image", "the next PNG chunk", offset, 12, source)
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if offset + 12 + length > source.size_bytes:
            raise _truncated("image", "a PNG chunk", offset, 12 + length, source)
        offset += 12 + length
        if kind == b"IEND":
            return offset


def _riff(kind: str, source: Source) -> int:
    length = int.from_bytes(source.at(4, 4), "little")
    if 8 + length > source.size_bytes:
        raise _truncated(kind, "the RIFF form", 0, 8 + length, source)
    return min(8 + length + length % 2, source.size_bytes)


def _wav(source: Source) -> int:
    """The form, and the chunks in it up to the samples: a form may be whole around a data chunk that is not."""
    end, offset = _riff("audio", source), 12
    while offset + 8 <= end:
        kind, length = struct.unpack("<4sI", source.at(offset, 8))
        if offset + 8 + length > source.size_bytes:
            raise _truncated("audio", "a WAVE chunk", offset, 8 + length, source)
        if kind == b"data":
            return end
        offset += 8 + length + length % 2
    raise MediaRejected("audio-truncated", f"no data chunk in a WAVE form of {end} bytes")


def _gif(source: Source) -> int | None:
    """GIF89a §18-27. A block that is none ends the walk: the decoder has the word."""
    flags = source.at(10, 1)
    if not flags:
        raise _truncated("image", "the GIF screen descriptor", 6, 7, source)
    offset = 13 + _colour_table(flags[0])
    while block := source.at(offset, 1):
        if block[0] == _GIF_TRAILER:
            return offset + 1
        if block[0] == _GIF_IMAGE:
            descriptor = source.at(offset, 10)
            table = _colour_table(descriptor[9]) if len(descriptor) == 10 else 0
            offset = _sub_blocks(source, offset + 11 + table)
        elif block[0] == _GIF_EXTENSION:
            offset = _sub_blocks(source, offset + 2)
        else:
            return None
    raise _truncated("image", "the next GIF block", offset, 1, source)


def _colour_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _sub_blocks(source: Source, offset: int) -> int:
    source.seek(offset)
    while length := source.read(1):
        if not length[0]:
            return source.tell()
        source.seek(length[0], 1)
    raise _truncated("image", "a GIF data block", offset, 1, source)


def _mp4(source: Source) -> int:
    offset, kinds = 0, set()
    while offset < source.size_bytes:
        head = source.at(offset, 16)
        if len(head) < 8:
            break
        length, kind = struct.unpack(">I4s", head[:8])
        if length == 1 and len(head) == 16:
            length = int.from_bytes(head[8:16], "big")
        elif length == 0:
            length = source.size_bytes - offset
        if length < 8:
            break
        if offset + length > source.size_bytes:
            raise _truncated("video", "an MP4 box", offset, length, source)
        kinds.add(kind)
        offset += length
    if b"moov" not in kinds:
        raise MediaRejected(
            "video-truncated", f"no moov box in {source.size_bytes} bytes: there is no index to play by"
        )
    return offset


def _webm(source: Source) -> int | None:
    """The EBML header, then one Segment, whose length a live muxer may leave unknown."""
    offset = 0
    for what, identifier in (("the EBML header", 4), ("the Segment", 4)):
        head = source.at(offset, identifier + 8)
        width = 9 - head[identifier].bit_length() if len(head) == identifier + 8 else 0
        if not 1 <= width <= 8:
            raise _truncated("video", what, offset, identifier + 8, source)
        size = head[identifier : identifier + width]
        value = int.from_bytes(size, "big") & ((1 << 7 * width) - 1)
        if value == (1 << 7 * width) - 1:
            return None
        if offset + identifier + width + value > source.size_bytes:
            raise _truncated("video", what, offset, identifier + width + value, source)
        offset += identifier + width + value
    return offset


def _ogg(source: Source) -> int:
    """RFC 3533 §6: pages until one that is not; the last must be flagged as the end of its stream."""
    offset, flags = 0, 0
    while (head := source.at(offset, 27))[:4] == b"OggS":
        table = source.at(offset + 27, head[26]) if len(head) == 27 else b""
        length = 27 + len(table) + sum(table)
        if len(head) < 27 or len(table) < head[26] or offset + length > source.size_bytes:
            raise _truncated("audio", "an Ogg page", offset, length, source)
        flags, offset = head[5], offset + length
    if not flags & _OGG_LAST_PAGE:
        raise MediaRejected("audio-truncated", f"the last Ogg page before byte {offset} does not end its stream")
    return offset


def _mp3(source: Source) -> int | None:
    """The Xing or Info header of the first frame, where an encoder wrote how many bytes the frames have."""
    head = source.at(0, 10)
    tag = 0
    if head[:3] == b"ID3" and len(head) == 10:  # ID3v2 §3.1: the size in four 7-bit bytes, without its header
        tag = 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
    frame = source.at(tag, 200)
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if place < 0 or len(frame) < place + 16 or not frame[place + 7] & 2:
        return None
    skipped = 4 if frame[place + 7] & 1 else 0
    claimed = int.from_bytes(frame[place + 8 + skipped : place + 12 + skipped], "big")
    if tag + claimed > source.size_bytes:
        raise _truncated("audio", "the MPEG frames", tag, claimed, source)
    return tag + claimed


_WALKS: dict[str, Callable[[Source], int | None]] = {
    "image/png": _png,
    "image/webp": lambda source: _riff("image", source),
    "image/gif": _gif,
    "audio/wav": _wav,
    "audio/ogg": _ogg,
    "audio/mpeg": _mp3,
    "video/mp4": _mp4,
    "video/webm": _webm,
}
