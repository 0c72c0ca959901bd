"""The structures of WebP, WAVE and AVI: RIFF forms of chunks, walked to where they end."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from contracts.errors import MediaRejected
from intake.children.layout import Layout, truncated
from intake.children.source import Source

_WEBP = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"ICCP", b"EXIF", b"XMP ", b"C2PA"})
_LENGTH_UNKNOWN = 0xFFFFFFFF  # what FFmpeg and others write where they cannot seek back


def webp(source: Source) -> Layout:
    """RFC 9649 §2.4. Chunks that it does not know are `unknown_bytes`: decoders pass them over."""
    layout = _form(source, "image", 0)
    frames = 0
    for _, name, length in _chunks(source, 12, layout.end or 0):
        frames += name == b"ANMF"
        if name not in _WEBP:
            layout.add("unknown_bytes", 8 + length + length % 2)
    layout.least["frames"] = max(frames, 1)
    return layout


def avi(source: Source) -> Layout:
    """The first form, and those that OpenDML 1.02 §2.2 lets follow it (`AVIX`)."""
    layout = _form(source, "video", 0)
    while layout.end is not None and (head := source.at(layout.end, 12))[:4] == b"RIFF" and head[8:] == b"AVIX":
        following = _form(source, "video", layout.end)
        layout.end = following.end
    return layout


def wav(source: Source) -> Layout:
    """The form, and the chunks in it up to the samples: a form may be whole around a data chunk that is not.

    A recording that was written as a stream has no lengths; its samples go to the end of the file, in whole blocks.
    """
    layout = Layout(end=12)
    end = _wav_end(source)
    align = 1
    for offset, kind, length in _chunks(source, 12, end):
        if kind == b"data" and length == _LENGTH_UNKNOWN:
            return _streamed(source, offset + 8, align)
        if offset + 8 + length > source.size_bytes:
            if layout.end == end:  # behind the samples: a list of words that is not whole costs nobody a sample
                break
            raise truncated("audio", "a WAVE chunk", offset, 8 + length, source)
        if kind == b"fmt ":
            align = int.from_bytes(source.at(offset + 20, 2), "little") or 1
        elif kind == b"C2PA":
            layout.add("c2pa_bytes", length)
        elif kind == b"data":
            layout.end = end
    if layout.end != end:
        raise MediaRejected("audio-truncated", f"no data chunk in a WAVE form of {end} bytes")
    return layout


def _streamed(source: Source, begin: int, align: int) -> Layout:
    if (source.size_bytes - begin) % align:
        raise truncated("audio", "the last block of samples", source.size_bytes // align * align, align, source)
    return Layout(end=source.size_bytes, facts={"length_unknown": 1})


def _wav_end(source: Source) -> int:
    length = int.from_bytes(source.at(4, 4), "little")
    return source.size_bytes if length == _LENGTH_UNKNOWN else _form_end(source, "audio", 0)


def _form(source: Source, kind: str, begin: int) -> Layout:
    end = _form_end(source, kind, begin)
    layout = Layout(end=end)
    for _, name, length in _chunks(source, begin + 12, end):
        if name == b"C2PA":
            layout.add("c2pa_bytes", length)
    return layout


def _form_end(source: Source, kind: str, begin: int) -> int:
    length = int.from_bytes(source.at(begin + 4, 4), "little")
    if begin + 8 + length > source.size_bytes:
        raise truncated(kind, "the RIFF form", begin, 8 + length, source)
    return min(begin + 8 + length + length % 2, source.size_bytes)


def _chunks(source: Source, offset: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    while offset + 8 <= end:
        kind, length = struct.unpack("<4sI", source.at(offset, 8))
        yield offset, kind, length
        offset += 8 + length + length % 2
