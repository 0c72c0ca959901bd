"""Whether a file holds its picture or sound and nothing else: no metadata, no profile, no thumbnail, nothing behind.

An allowlist of what each container needs: what is not on it, also what nobody knows, is something else. Sources: PNG
(W3C) §5 and §11, JPEG (ITU-T T.81) annex B with JFIF 1.02, WebP (RFC 9649) §2, GIF89a, RIFF/WAVE (RFC 2361).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from intake.children.source import Source

_PNG_CHUNKS = frozenset({b"IHDR", b"IDAT", b"IEND"})
_WEBP_CHUNKS = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH"})
_WAV_CHUNKS = frozenset({b"fmt ", b"data"})
_GIF_APPLICATIONS = frozenset({b"NETSCAPE2.0", b"ANIMEXTS1.0"})  # how often it repeats
_JFIF_BYTES = 16  # without a thumbnail
_FRAMES_AND_TABLES = frozenset({0xC0, 0xC1, 0xC2, 0xC4, 0xDB, 0xDD})  # SOF0 to SOF2, DHT, DQT, DRI
_MARKER = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]")  # not a stuffed byte, not a restart
_SCAN_BYTES = 1 << 20


def is_bare(media_type: str, source: Source) -> bool:
    """Of a file that was decoded already; False for a type that no derivative has."""
    check = _CHECKS.get(media_type)
    return check is not None and check(source)


def _png(source: Source) -> bool:
    if source.at(24, 1) != b"\x08":  # bits a channel
        return False
    place = 8
    while len(head := source.at(place, 8)) == 8:
        place += 12 + int.from_bytes(head[:4], "big")
        if head[4:] not in _PNG_CHUNKS:
            return False
        if head[4:] == b"IEND":
            break
    return place == source.size_bytes


def _jpeg(source: Source) -> bool:
    place = 2
    while len(head := source.at(place, 4)) == 4 and head[0] == 0xFF:
        marker, length = head[1], int.from_bytes(head[2:], "big")
        if marker == 0xE0:
            if length != _JFIF_BYTES or source.at(place + 4, 5) != b"JFIF\0":
                return False
        elif marker == 0xDA:
            place = _after_scan(source, place + 2 + length)
            if source.at(place, 2) == b"\xff\xd9":
                return place + 2 == source.size_bytes
            continue
        elif marker not in _FRAMES_AND_TABLES:
            return False
        place += 2 + length
    return False


def _after_scan(source: Source, place: int) -> int:
    """Where the marker behind entropy-coded data begins; the file's end if there is none."""
    while piece := source.at(place, _SCAN_BYTES):
        found = _MARKER.search(piece)
        if found is not None:
            return place + found.end() - 2
        place += len(piece) - (piece.endswith(b"\xff") and len(piece) > 1)
        if piece == b"\xff":
            break
    return source.size_bytes


def _webp(source: Source) -> bool:
    return _riff(source, _WEBP_CHUNKS)


def _wav(source: Source) -> bool:
    return source.at(12, 8) == b"fmt \x10\0\0\0" and _riff(source, _WAV_CHUNKS)


def _riff(source: Source, chunks: frozenset[bytes]) -> bool:
    place = 12
    if 8 + int.from_bytes(source.at(4, 4), "little") != source.size_bytes:
        return False
    while len(head := source.at(place, 8)) == 8:
        if head[:4] not in chunks:
            return False
        length = int.from_bytes(head[4:], "little")
        place += 8 + length + length % 2
    return place == source.size_bytes


def _gif(source: Source) -> bool:
    flags = source.at(10, 1)[0]
    place = 13 + (_colours(flags) if flags & 0x80 else 0)
    while len(head := source.at(place, 3)) >= 1:
        if head == b"\x3b" or head[:1] == b"\x3b":
            return place + 1 == source.size_bytes
        if head[:1] == b"\x2c":
            flags = source.at(place + 9, 1)[0]
            place += 11 + (_colours(flags) if flags & 0x80 else 0)
        elif head[:2] == b"\x21\xf9" or (head == b"\x21\xff\x0b" and source.at(place + 3, 11) in _GIF_APPLICATIONS):
            place += 2
        else:
            return False
        place = _after_blocks(source, place)
    return False


def _colours(flags: int) -> int:
    return 3 << (flags & 7) + 1


def _after_blocks(source: Source, place: int) -> int:
    while (size := source.at(place, 1)) and size != b"\0":
        place += 1 + size[0]
    return place + 1


_CHECKS: dict[str, Callable[[Source], bool]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
    "image/gif": _gif,
    "audio/wav": _wav,
}
