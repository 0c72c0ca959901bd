"""FFmpeg (PyAV), opened so that it reads the bytes it was given and nothing else.

FFmpeg opens other resources when a file asks for it, also from a file-like object (a playlist hidden under another
name made an HTTP request), so it is told the format, allowed no other, no protocol, and no way to open anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import av

from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children.source import Source, refuse_to_open

_DEMUXERS = {
    "video/mp4": "mov",
    "video/quicktime": "mov",
    "audio/mp4": "mov",
    "video/webm": "matroska",
    "video/x-matroska": "matroska",
    "video/x-msvideo": "avi",
    "audio/aac": "aac",
    "audio/mpeg": "mp3",
}
_WHITELISTS = {"mov": "mov,mp4"}  # FFmpeg compares its list of names with ours, one by one
_STREAM_RULES = {"video": "video-streams", "audio": "audio-streams"}
_CODEC_NAMES = {
    "libdav1d": "av1",
    "libvpx": "vp8",
    "libvpx-vp9": "vp9",
    "mp3float": "mp3",
    "libopus": "opus",
}
_SPARE_STREAMS = (
    64  # where its own bound is passed, libav says out of memory: so that ours is passed first, by its name
)
_PROBE_BYTES = 5_000_000
_ANALYSE_US = 5_000_000


def open_input(source: BinaryIO, media_type: str, limits: Limits) -> av.container.InputContainer:
    """The container, headers read, its streams counted. Raises MediaRejected `<kind>-streams`, and FFmpeg's errors."""
    demuxer = _DEMUXERS[media_type]
    options = {
        "format_whitelist": _WHITELISTS.get(demuxer, demuxer),
        "protocol_whitelist": "none",
        "max_streams": str(limits.media_streams + _SPARE_STREAMS),
        "probesize": str(_PROBE_BYTES),
        "analyzeduration": str(_ANALYSE_US),
    }
    container = av.open(source, "r", format=demuxer, options=options, io_open=refuse_to_open, metadata_errors="replace")
    if len(container.streams) > limits.media_streams:
        rule = _STREAM_RULES[media_type.partition("/")[0]]
        reason = f"{len(container.streams)} streams, the bound is {limits.media_streams}"
        container.close()
        raise MediaRejected(rule, reason)
    return container


@contextmanager
def refusals(kind: str, source: Source, so_far: Callable[[], str]) -> Iterator[None]:
    """Turn FFmpeg's errors into MediaRejected: `<kind>-truncated` for an early end, else `<kind>-undecodable`.

    `so_far` says how much was decoded until then.
    """
    try:
        yield
    except (MediaRejected, MemoryError, ImportError):
        raise
    except Exception as error:
        how = "truncated" if isinstance(error, av.error.EOFError) else "undecodable"
        where = f"{type(error).__name__} after {so_far()}, {source.size_bytes} bytes"
        raise MediaRejected(f"{kind}-{how}", where) from error


def prepare_decoder(stream: Any, **options: str) -> None:
    """One thread, and errors instead of repairs. Call before the first packet is decoded."""
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    stream.codec_context.options = {"err_detect": "explode", **options}


def decoded(container: av.container.InputContainer, stream: Any, kind: str) -> Iterator[Any]:
    """Every frame of `stream`. Raises MediaRejected `<kind>-truncated` at a packet that is not whole."""
    for packet in container.demux(stream):
        if packet.is_corrupt:
            raise MediaRejected(f"{kind}-truncated", f"the packet at byte {packet.pos} is not whole")
        yield from packet.decode()


def codec_name(stream: Any) -> str:
    """The codec of `stream`, whichever library decodes it."""
    name: str = stream.codec_context.name
    return _CODEC_NAMES.get(name, name)
