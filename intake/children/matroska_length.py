"""The structure of Matroska and WebM: elements, walked to where they end (RFC 9559, RFC 8794 §4-6)."""

from __future__ import annotations

from contracts.errors import MediaRejected
from intake.children.layout import Layout, truncated
from intake.children.source import Source

_EBML, _SEGMENT, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1F43B675
_IN_SEGMENT = frozenset(
    {0x114D9B74, 0x1549A966, 0x1654AE6B, _CLUSTER, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, 0xEC, 0xBF}
)
_IN_CLUSTER = frozenset({0xE7, 0xA7, 0xAB, 0xA3, 0xA0, 0x5854, 0xAF})
_CLUSTER_BYTES = _CLUSTER.to_bytes(4, "big")
_PIECE = 1 << 18
_DESCENDED = frozenset({_SEGMENT, _CLUSTER})


def matroska(source: Source) -> Layout:
    """The EBML header, then one Segment.

    A live muxer leaves the lengths of the Segment and its Clusters unknown (RFC 8794 §6.2): then their children are
    walked, until one that cannot be a child. Raises MediaRejected `video-truncated`, and `video-undecodable` for bytes
    between elements.
    """
    offset = _skip(source, 0, _EBML, "the EBML header")
    identifier, length, begin = _element(source, offset)
    if identifier != _SEGMENT:
        raise truncated("video", "the Segment", offset, 12, source)
    if length is None:
        return Layout(_unknown_end(source, begin), {"length_unknown": 1})
    end = _end_of(source, offset, begin, length, "the Segment")
    _check_children(source, begin, end)
    return Layout(end)


def _check_children(source: Source, offset: int, end: int) -> None:
    """Every element up to `end`, also in Clusters: where one is none, FFmpeg looks for the next and says nothing."""
    while offset < end:
        identifier, length, begin = _element(source, offset)
        if identifier not in _IN_SEGMENT and identifier not in _IN_CLUSTER:
            raise MediaRejected("video-undecodable", f"byte {offset} begins no element that a Segment may hold")
        if identifier != _CLUSTER:
            if length is None or begin + length > end:
                raise MediaRejected("video-undecodable", f"element {identifier:#x} at byte {offset} leaves the Segment")
            begin += length
        offset = begin


def _unknown_end(source: Source, offset: int) -> int:
    while offset < source.size_bytes:
        identifier, length, begin = _element(source, offset)
        known = identifier in _IN_SEGMENT or identifier in _IN_CLUSTER
        if not known or (length is None and identifier not in _DESCENDED):
            _check_no_cluster(source, offset)
            break
        offset = begin if length is None else _end_of(source, offset, begin, length, f"element {identifier:#x}")
    return offset


def _check_no_cluster(source: Source, offset: int) -> None:
    """Behind the end of a Segment of unknown length there is no Cluster: else the end is damage within it, which FFmpeg
    passes over in silence."""
    place = offset
    while data := source.at(place, _PIECE):
        if _CLUSTER_BYTES in data:
            raise MediaRejected("video-undecodable", f"byte {offset} begins no element, and Clusters follow")
        if len(data) < _PIECE:
            return
        place += _PIECE - len(_CLUSTER_BYTES) + 1


def _skip(source: Source, offset: int, expected: int, what: str) -> int:
    identifier, length, begin = _element(source, offset)
    if identifier != expected or length is None:
        raise truncated("video", what, offset, 12, source)
    return _end_of(source, offset, begin, length, what)


def _end_of(source: Source, offset: int, begin: int, length: int, what: str) -> int:
    if begin + length > source.size_bytes:
        raise truncated("video", what, offset, begin + length - offset, source)
    return begin + length


def _element(source: Source, offset: int) -> tuple[int, int | None, int]:
    """Identifier (0: none), length (None: unknown), and where the data begins (RFC 8794 §4, §5)."""
    head = source.at(offset, 12)
    width = 9 - head[0].bit_length() if head else 9
    if width > 4 or len(head) <= width:
        return 0, 0, offset
    size_width = 9 - head[width].bit_length()
    raw = head[width : width + size_width]
    if size_width > 8 or len(raw) < size_width:
        return 0, 0, offset
    length = int.from_bytes(raw, "big") & (1 << 7 * size_width) - 1
    unknown = length == (1 << 7 * size_width) - 1
    return int.from_bytes(head[:width], "big"), None if unknown else length, offset + width + size_width
