"""Where a FLAC stream ends (RFC 9639). It states no length, so its last frame is found and its end proven.

A frame ends with a checksum over itself, and 16 bits are found by chance too: of the places where they match, the end
is the first up to which the frame decodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import av

from intake.children.layout import Layout, truncated
from intake.children.source import Source

_SYNC = re.compile(rb"\xff[\xf8\xf9]", re.DOTALL)
_STREAMINFO_BYTES = 34
_HEADER_MAX = 16
_CHUNK = 1 << 18
_FRAME_BYTES = 1 << 21  # 65,535 samples of 8 channels at 32 bits


def flac(source: Source) -> Layout:
    """The metadata blocks, then frames. The end is None when no frame's end can be proven: the decoder has the word."""
    offset, last = 4, False
    while not last:
        head = source.at(offset, 4)
        length = int.from_bytes(head[1:4], "big")
        if len(head) < 4 or offset + 4 + length > source.size_bytes:
            raise truncated("audio", "a FLAC metadata block", offset, 4 + length, source)
        last, offset = bool(head[0] & 0x80), offset + 4 + length
    start = _last_frame(source, offset)
    if start is None:
        return Layout()
    return Layout(_frame_end(source, start))


def _last_frame(source: Source, offset: int) -> int | None:
    """The last header whose number follows from those before it: bytes behind the end rarely have one."""
    best, number, step = None, -1, 0
    for place in _syncs(source, offset):
        head = source.at(place, _HEADER_MAX)
        parsed = _header(head)
        if parsed is None:
            continue
        variable, found, samples = parsed
        if number < 0 or found == number + (step if variable else 1):
            best, number, step = place, found, samples
    return best


def _syncs(source: Source, offset: int) -> Iterator[int]:
    while len(data := source.at(offset, _CHUNK)) > 1:
        for match in _SYNC.finditer(data):
            yield offset + match.start()
        offset += len(data) - 1


def _header(head: bytes) -> tuple[bool, int, int] | None:
    """RFC 9639 §9.1: whether the block size varies, the coded number, and the block size; None for no header."""
    if len(head) < 6 or head[2] >> 4 == 0 or head[2] & 15 == 15 or head[3] & 1:
        return None
    width = max(8 - (head[4] ^ 0xFF).bit_length(), 1)
    if not 1 <= width <= 7 or (width == 1 and head[4] & 0x80):
        return None
    number = head[4] & (0x7F if width == 1 else 0x7F >> width)
    for byte in head[5 : 4 + width]:
        number = number << 6 | byte & 0x3F
    place = 4 + width
    code = head[2] >> 4
    extra = {6: 1, 7: 2}.get(code, 0)
    samples = int.from_bytes(head[place : place + extra], "big") + 1 if extra else _block_size(code)
    place += extra + {12: 1, 13: 2, 14: 2}.get(head[2] & 15, 0)
    if place >= len(head) or _crc8(head[:place]) != head[place]:
        return None
    return bool(head[1] & 1), number, samples


def _block_size(code: int) -> int:
    return 192 if code == 1 else 576 << (code - 2) if code <= 5 else 256 << (code - 8)


def _frame_end(source: Source, start: int) -> int | None:
    frame = source.at(start, min(_FRAME_BYTES, source.size_bytes - start))
    info = source.at(8, _STREAMINFO_BYTES)
    return next((start + length for length in _matches(frame) if _decodes(frame[:length], info)), None)


def _decodes(frame: bytes, info: bytes) -> bool:
    """Whether FFmpeg decodes `frame` alone; libFLAC would want to find the first one before it."""
    decoder = av.CodecContext.create("flac", "r")
    decoder.extradata = info
    decoder.thread_count = 1
    decoder.options = {"err_detect": "explode"}
    try:
        return len(decoder.decode(av.Packet(frame))) == 1
    except av.error.FFmpegError:
        return False


def _matches(frame: bytes) -> Iterator[int]:
    """The lengths at which the frame's checksum comes out even (RFC 9639 §9.3)."""
    crc = 0
    for length, byte in enumerate(frame, 1):
        crc = (crc << 8 & 0xFF00) ^ _CRC16[crc >> 8 ^ byte]
        if crc == 0 and length > 8:
            yield length


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    top, mask = 1 << bits - 1, (1 << bits) - 1
    values = []
    for value in range(256):
        crc = value << bits - 8
        for _ in range(8):
            crc = (crc << 1 ^ polynomial if crc & top else crc << 1) & mask
        values.append(crc)
    return tuple(values)


_CRC8, _CRC16 = _table(0x07, 8), _table(0x8005, 16)
