"""The structure of ISO media files (MP4, QuickTime, M4A, AVIF, HEIC): boxes, walked to where they end."""

from __future__ import annotations

import struct

from contracts.errors import MediaRejected
from intake.children.layout import Layout, truncated
from intake.children.source import Source

_TOP_LEVEL = frozenset(
    b"ftyp moov mdat free skip wide uuid moof mfra sidx ssix styp meta pdin emsg prft udta pnot PICT jumb idat".split()
)
"""ISO/IEC 14496-12 §4.1 and the QuickTime atoms. Another kind is no box of ours: there the container ends."""
_C2PA_UUID = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
_NEEDED = {"image": b"meta", "audio": b"moov", "video": b"moov"}


def boxes(source: Source, kind: str) -> Layout:
    """Boxes until one that is none. Raises MediaRejected `<kind>-truncated`: a box, or the index, is not whole."""
    layout, offset, seen = Layout(), 0, set()
    while offset < source.size_bytes:
        head = source.at(offset, 32)
        length, name, header = _box(head, source.size_bytes - offset)
        if name not in _TOP_LEVEL or length < header:
            break
        if offset + length > source.size_bytes:
            raise truncated(kind, f"the {name.decode('ascii')} box", offset, length, source)
        if name == b"jumb" or (name == b"uuid" and head[header : header + 16] == _C2PA_UUID):
            layout.add("c2pa_bytes", length)
        seen.add(name)
        offset += length
    needed = _NEEDED[kind]
    if needed not in seen:
        reason = f"no {needed.decode('ascii')} box in {offset} bytes of boxes: there is no index to decode by"
        raise MediaRejected(f"{kind}-truncated", reason)
    layout.end = offset
    return layout


def _box(head: bytes, left: int) -> tuple[int, bytes, int]:
    """Length, kind and header length of the box that begins with `head`; a length of 0 goes to the end of the file."""
    if len(head) < 8:
        return 0, b"", 8
    length, name = struct.unpack(">I4s", head[:8])
    if length == 1 and len(head) >= 16:
        return int.from_bytes(head[8:16], "big"), name, 16
    return length or left, name, 8
