"""What the index of a HEIC says of its items, and whether their bytes can be what it says (ISO/IEC 14496-12 §8.11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from contracts.errors import MediaRejected
from intake.children.source import Source

_META_BYTES = 16 << 20  # an index of a hundred thousand tiles
_TYPE_AT = {b"\2": 8, b"\3": 10}  # in an item's entry, by the version of its form
_HEVC, _UNIT_LENGTH_BYTES = b"hvc1", 4  # libheif reads no other length
_NO_CODE = re.compile(rb"\0\0[\0-\2]")
"""What no NAL unit holds (ISO/IEC 23008-2 §7.4.2.2): an encoder breaks it up, so it is a hole in the file."""
_IN_FILE, _IN_INDEX = 0, 1


class _Place(NamedTuple):
    """Where an item's bytes are: offsets and lengths, in the file or in the index's own data."""

    method: int
    extents: list[tuple[int, int]]


def check_items(source: Source) -> None:
    """Raises MediaRejected `image-undecodable` for an item whose type or content type is no text (pi-heif 1.4.0 makes
    text of both without asking, and dies of what is none), and for one of HEVC with a hole in it; `image-truncated` for
    one whose units end behind it."""
    for meta in _boxes(_index(source), b"meta"):
        index = meta[4:]
        coded = set()
        for entry in _entries(index):
            kind_at = _TYPE_AT.get(entry[:1], 4)
            if not _is_text(entry[kind_at:]):
                raise MediaRejected("image-undecodable", f"an item of {len(entry)} bytes whose type is no text")
            if entry[kind_at : kind_at + 4] == _HEVC:
                coded.add(int.from_bytes(entry[4 : kind_at - 2], "big"))
        coded -= set(_thumbnails(index))
        own = b"".join(_boxes(index, b"idat"))
        for number, place in _places(index):
            if number in coded:
                _check_units(_data(place, source, own), number)


def _check_units(data: bytes, number: int) -> None:
    offset = 0
    while offset < len(data):
        begin = offset + _UNIT_LENGTH_BYTES
        offset = begin + int.from_bytes(data[offset:begin], "big")
        if offset > len(data):
            raise MediaRejected("image-truncated", f"a unit of item {number} ends {offset - len(data)} bytes behind it")
        if hole := _NO_CODE.search(data, begin, offset):
            reason = f"zeros where HEVC has none, at byte {hole.start()} of the {len(data)} of item {number}"
            raise MediaRejected("image-undecodable", reason)


def _data(place: _Place, source: Source, own: bytes) -> bytes:
    if place.method == _IN_FILE:
        return b"".join(source.at(offset, length or source.size_bytes) for offset, length in place.extents)
    if place.method == _IN_INDEX:
        return b"".join(own[offset : offset + length] for offset, length in place.extents)
    raise MediaRejected("image-undecodable", f"an item made of others' bytes, by method {place.method}")


def _entries(index: bytes) -> Iterator[bytes]:
    for items in _boxes(index, b"iinf"):
        yield from _boxes(items[6 if items[:1] == b"\0" else 8 :], b"infe")


def _thumbnails(index: bytes) -> Iterator[int]:
    """Numbers of the items that are small forms of others (ISO/IEC 23008-12 §6.5.5), which nobody decodes."""
    for references in _boxes(index, b"iref"):
        for reference in _boxes(references[4:], b"thmb"):
            yield int.from_bytes(reference[: 4 if references[0] else 2], "big")


def _places(index: bytes) -> Iterator[tuple[int, _Place]]:
    """Number and place of each item (§8.11.3)."""
    for box in _boxes(index, b"iloc"):
        version, reader = box[0] if box else 0, _Reader(box, 4)
        sizes = reader.number(2)
        offset_bytes, length_bytes, base_bytes, index_bytes = (sizes >> shift & 0x0F for shift in (12, 8, 4, 0))
        wide = 4 if version == 2 else 2
        for _ in range(reader.number(wide)):
            number = reader.number(wide)
            method = reader.number(2) & 0x0F if version else _IN_FILE
            reader.number(2)
            base, extents = reader.number(base_bytes), []
            for _ in range(reader.number(2)):
                reader.number(index_bytes if version else 0)
                extents.append((base + reader.number(offset_bytes), reader.number(length_bytes)))
            yield number, _Place(method, extents)


class _Reader:
    """Big-endian numbers, one after the other. Raises MediaRejected `image-truncated` where there are no more."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data, self._offset = data, offset

    def number(self, size_bytes: int) -> int:
        """The next one, of so many bytes."""
        begin, self._offset = self._offset, self._offset + size_bytes
        if self._offset > len(self._data):
            raise MediaRejected("image-truncated", f"places of items need more than {len(self._data)} bytes")
        return int.from_bytes(self._data[begin : self._offset], "big")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _index(source: Source) -> bytes:
    """The boxes of the file up to its `meta`, which stands early, and no pixels."""
    offset, end = 0, 0
    while offset < source.size_bytes:
        head = source.at(offset, 8)
        length = int.from_bytes(head[:4], "big")
        end = offset + length
        if head[4:] == b"meta" or length < 8:
            break
        offset = end
    if end > source.size_bytes or end - offset > _META_BYTES:
        raise MediaRejected("image-undecodable", f"an index of {end - offset} bytes, the bound is {_META_BYTES}")
    return source.at(offset, end - offset)


def _boxes(data: bytes, kind: bytes) -> Iterator[bytes]:
    offset = 0
    while offset + 8 <= len(data):
        length = int.from_bytes(data[offset : offset + 4], "big")
        if length < 8:
            return
        if data[offset + 4 : offset + 8] == kind:
            yield data[offset + 8 : offset + length]
        offset += length
