"""The structures of Ogg, MP3 and ADTS: pages and frames, walked to where they end."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from contracts.errors import MediaRejected
from intake.children.layout import Layout, truncated
from intake.children.source import Source

Frame = tuple[int, tuple[int, ...]]
"""A frame's length in bytes, and the part of its header that does not change from frame to frame."""

_OGG_HEADER_BYTES = 27
_OGG_FIRST_PAGE, _OGG_LAST_PAGE = 0x02, 0x04
_ALL_ONES = 0xFFFFFFFF
_BITS_TURNED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Ogg's checksum is zlib's with the bits of each byte the other way round, and begins with zeros."""
_MP3_HEADER_BYTES, _ADTS_HEADER_BYTES = 4, 7
_RESYNC_BYTES = 1 << 16  # how far behind a damaged frame the next is looked for: decoders do the same
_MP3_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_MP3_KBITS_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MP3_KBITS_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MP3_SAMPLES = {3: 1_152, 2: 576, 0: 576}
"""Of a frame of layer III, by version."""
_XING_FIELDS = ((1, 4), (2, 4), (4, 100), (8, 4))
"""Frames, bytes, table of contents and quality: the flag of each, and its size in bytes."""
_LAME_DELAY = 21  # bytes behind them: version, revision, filter, gains, flags and rate come before
_C2PA_NAMES = (b"application/x-c2pa-manifest-store", b"application/c2pa")


def ogg(source: Source) -> Layout:
    """RFC 3533 §6: pages until each stream that began has ended. None may be damaged or missing: decoders pass over
    both, and answer with less sound or invented sound. A further chain is no part of the sound that is decoded.
    """
    offset, due = 0, dict[bytes, int]()
    while (head := source.at(offset, _OGG_HEADER_BYTES))[:4] == b"OggS":
        table = source.at(offset + 27, head[26]) if len(head) == _OGG_HEADER_BYTES else b""
        length = 27 + len(table) + sum(table)
        if len(head) < _OGG_HEADER_BYTES or len(table) < head[26] or offset + length > source.size_bytes:
            raise truncated("audio", "an Ogg page", offset, length, source)
        _check_page(source.at(offset, length), offset, due)
        offset += length
        if not due:
            return Layout(offset)
    raise MediaRejected("audio-truncated", f"the last Ogg page before byte {offset} does not end its stream")


def _check_page(page: bytes, offset: int, due: dict[bytes, int]) -> None:
    """Hold a page against its checksum and against the number that is due in its stream, and note the next."""
    flags, serial, number = page[5], page[14:18], int.from_bytes(page[18:22], "little")
    whole = (page[:22] + bytes(4) + page[26:]).translate(_BITS_TURNED)
    found = (zlib.crc32(whole, _ALL_ONES) ^ _ALL_ONES).to_bytes(4, "big").translate(_BITS_TURNED)
    if found != page[22:26]:
        raise MediaRejected("audio-undecodable", f"the checksum of the Ogg page at byte {offset} does not match")
    if not flags & _OGG_FIRST_PAGE and due.get(serial) != number:
        expected = due.get(serial, "the first of its stream")
        raise MediaRejected("audio-truncated", f"Ogg page {number} at byte {offset}, expected {expected}")
    due[serial] = number + 1 & _ALL_ONES
    if flags & _OGG_LAST_PAGE:
        del due[serial]


def mp3(source: Source) -> Layout:
    """The frames, and the tags around them: ID3v2 before, Lyrics3, APEv2 and ID3v1 behind.

    The first frame may hold what an encoder wrote about the others (Xing, Info): `frames_claimed` where it lied.
    """
    layout = Layout()
    begin = id3_end(source, 0)
    if begin and any(name in source.at(0, min(begin, _RESYNC_BYTES)) for name in _C2PA_NAMES):
        layout.add("c2pa_bytes", begin)
    claimed, trimmed = _xing(source, begin)
    frames, end = _frames(source, begin, _mp3_frame, _MP3_HEADER_BYTES, layout)
    layout.least["samples"] = _mp3_samples(source.at(begin, 2), frames, trimmed)
    if claimed is not None and claimed != frames - 1:  # the frame that claims holds no sound and counts none
        layout.add("frames_claimed", claimed)
        layout.add("frames_found", frames - 1)
    layout.coded_end, layout.end = end, _tags_end(source, end)
    return layout


def adts(source: Source) -> Layout:
    """ISO/IEC 13818-7 §6.2: frames that each say how long they are."""
    layout = Layout()
    _, end = _frames(source, id3_end(source, 0), _adts_frame, _ADTS_HEADER_BYTES, layout)
    layout.end = _tags_end(source, end)
    return layout


def _frames(
    source: Source, offset: int, parse: Callable[[bytes], Frame | None], header_bytes: int, layout: Layout
) -> tuple[int, int]:
    """How many frames of one form there are from `offset`, and where the last ends.

    Raises MediaRejected for a frame that is cut, be it within the `header_bytes` that `parse` needs.
    """
    count, end = 0, offset
    form: tuple[int, ...] | None = None
    while offset < source.size_bytes:
        frame = parse(source.at(offset, 8))
        if frame is None or (form is not None and frame[1] != form):
            found = _resync(source, offset, parse, form)
            if found is None:
                break
            layout.add("skipped_bytes", found - offset)
            offset = found
            continue
        length, form = frame
        if offset + length > source.size_bytes:
            raise truncated("audio", f"frame {count + 1}", offset, length, source)
        count, offset = count + 1, offset + length
        end = offset
    if count == 0:
        raise truncated("audio", "the first frame", offset, 4, source)
    if 0 < source.size_bytes - end < header_bytes and source.at(end, 1) == b"\xff":
        raise truncated("audio", f"the header of frame {count + 1}", end, header_bytes, source)
    return count, end


def _resync(
    source: Source, offset: int, parse: Callable[[bytes], Frame | None], form: tuple[int, ...] | None
) -> int | None:
    """Where behind `offset` two frames of the form stand in a row, or None within the bytes that are searched."""
    if form is None:
        return None
    data = source.at(offset, _RESYNC_BYTES)
    place = data.find(b"\xff", 1)
    while 0 < place < len(data) - 8:
        frame = parse(data[place : place + 8])
        if frame is not None and frame[1] == form:
            following = parse(source.at(offset + place + frame[0], 8))
            if following is not None and following[1] == form:
                return offset + place
        place = data.find(b"\xff", place + 1)
    return None


def _mp3_frame(head: bytes) -> Frame | None:
    """ISO/IEC 11172-3 §2.4.2.3 and 13818-3 §2.4.2.3, layer III. A free bit rate states no length: no frame."""
    if len(head) < _MP3_HEADER_BYTES or head[0] != 0xFF or head[1] & 0xE0 != 0xE0 or head[1] >> 1 & 3 != 1:
        return None
    version, bits, rate_index, padding = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if version not in _MP3_RATES or bits in (0, 15) or rate_index == 3:
        return None
    rate = _MP3_RATES[version][rate_index]
    kbits, factor = (_MP3_KBITS_1[bits], 144_000) if version == 3 else (_MP3_KBITS_2[bits], 72_000)
    return factor * kbits // rate + padding, (version, rate_index)


def _adts_frame(head: bytes) -> Frame | None:
    if len(head) < _ADTS_HEADER_BYTES or head[0] != 0xFF or head[1] & 0xF6 != 0xF0:
        return None
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    rate_index = head[2] >> 2 & 15
    return (length, (head[1] & 0xF8, rate_index)) if length > 7 and rate_index < 13 else None


def id3_end(source: Source, offset: int) -> int:
    """Where the ID3v2 tag at `offset` ends; `offset` itself when there is none.

    ID3v2.4 §3.1: the size in four 7-bit bytes, without its header, and with a footer if the flags say so.
    """
    head = source.at(offset, 10)
    if head[:3] != b"ID3" or len(head) < 10:
        return offset
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return offset + 10 + size + (10 if head[5] & 0x10 else 0)


def _mp3_samples(head: bytes, frames: int, trimmed: int) -> int:
    """How many samples decoding has to give at least. A decoder leaves out the frame that counts the others, what the
    encoder says it put before and behind the sound, and one frame that begins in bits that are not there."""
    each = _MP3_SAMPLES[head[1] >> 3 & 3] if len(head) > 1 else 0
    return max(frames - 2, 0) * each - trimmed


def _xing(source: Source, begin: int) -> tuple[int | None, int]:
    """How many frames a Xing or Info header claims, and how many samples its encoder added before and behind the sound
    (LAME's tag revision 1). Raises MediaRejected when it claims more bytes than there are."""
    frame = source.at(begin, 400)
    place = max(frame.find(b"Xing", 0, 200), frame.find(b"Info", 0, 200))
    if place < 0 or len(frame) < place + 16:
        return None, 0
    flags, values = frame[place + 7], frame[place + 8 :]
    frames = int.from_bytes(values[:4], "big") if flags & 1 else None
    size = int.from_bytes(values[4:8] if flags & 1 else values[:4], "big") if flags & 2 else 0
    if begin + size > source.size_bytes:
        raise truncated("audio", "the MPEG frames", begin, size, source)
    lame = place + 8 + sum(size for bit, size in _XING_FIELDS if flags & bit)
    added = frame[lame + _LAME_DELAY :][:3].ljust(3, b"\0")
    return frames, (added[0] << 4 | added[1] >> 4) + ((added[1] & 15) << 8 | added[2])


def _tags_end(source: Source, offset: int) -> int:
    """Where the tags that may stand behind the frames end."""
    while True:
        head = source.at(offset, 32)
        if head[:8] == b"APETAGEX" and len(head) == 32:  # APEv2: the size is without the header that stands here
            offset = min(offset + 32 + int.from_bytes(head[12:16], "little"), source.size_bytes)
        elif head[:11] == b"LYRICSBEGIN":
            words = source.at(offset, _RESYNC_BYTES)
            place = max(words.find(b"LYRICS200"), words.find(b"LYRICSEND"))
            if place < 0:
                return offset
            offset += place + 9
        elif head[:3] == b"TAG" and source.size_bytes - offset == 128:
            return source.size_bytes
        elif head[:3] == b"ID3" and id3_end(source, offset) <= source.size_bytes:
            offset = id3_end(source, offset)
        else:
            return offset
