"""Where a container says that it ends, against where the bytes end.

Decoders differ in what they forgive: some answer a file that was cut with fewer frames and no error. So containers
are walked first, and one that claims more than there is is refused with the place. What follows the end is counted:
a picture with an archive or a page behind it is two files, and another program may see the other one. Sources as in
contracts/signatures, and C2PA 2.2 annex A for where a manifest stands.
"""

from __future__ import annotations

from collections.abc import Callable

from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import audio_lengths, box_lengths, flac_length, image_lengths, matroska_length, riff_lengths
from intake.children.layout import Layout
from intake.children.source import Source

Walk = Callable[[Source], Layout]

_WALKS: dict[str, Walk] = {
    "image/png": image_lengths.png,
    "image/jpeg": image_lengths.jpeg,
    "image/gif": image_lengths.gif,
    "image/webp": riff_lengths.webp,
    "image/avif": lambda source: box_lengths.boxes(source, "image"),
    "image/heic": lambda source: box_lengths.boxes(source, "image"),
    "audio/wav": riff_lengths.wav,
    "audio/flac": flac_length.flac,
    "audio/ogg": audio_lengths.ogg,
    "audio/mpeg": audio_lengths.mp3,
    "audio/aac": audio_lengths.adts,
    "audio/mp4": lambda source: box_lengths.boxes(source, "audio"),
    "video/mp4": lambda source: box_lengths.boxes(source, "video"),
    "video/quicktime": lambda source: box_lengths.boxes(source, "video"),
    "video/webm": matroska_length.matroska,
    "video/x-matroska": matroska_length.matroska,
    "video/x-msvideo": riff_lengths.avi,
}


def walk(media_type: str, source: Source, limits: Limits) -> Layout:
    """The container's structure. Its facts are findings: `trailing_bytes` where there are any, `end_unknown` where its
    end cannot be proven, `c2pa_bytes` where there is a manifest, and what a format's own walk adds.

    Raises MediaRejected `<kind>-truncated` when the file ends before its container does, and `trailing-data` when
    more bytes follow the container than the limits allow, or could.
    """
    layout = _WALKS[media_type](source)
    if layout.end is None:
        if source.size_bytes > limits.trailing_bytes:
            raise MediaRejected("trailing-data", f"no end can be proven in {source.size_bytes} bytes")
        layout.facts["end_unknown"] = 1
        return layout
    trailing = max(source.size_bytes - layout.end, 0)
    if trailing > limits.trailing_bytes:
        reason = f"{trailing} bytes behind the end at byte {layout.end}, the bound is {limits.trailing_bytes}"
        raise MediaRejected("trailing-data", reason)
    if trailing:
        layout.facts["trailing_bytes"] = trailing
    return layout
