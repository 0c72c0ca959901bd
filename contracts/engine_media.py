"""What an engine decodes itself. Anything else reaches it as a derivative, or not at all."""

from __future__ import annotations

from contracts.artifact import Modality
from contracts.errors import MediaRejected

_ANY = None

ENGINE_READS: dict[tuple[Modality, str], frozenset[str] | None] = {
    (Modality.IMAGE, "image/png"): _ANY,
    (Modality.IMAGE, "image/jpeg"): _ANY,
    (Modality.IMAGE, "image/webp"): _ANY,
    (Modality.IMAGE, "image/gif"): _ANY,  # its first frame
    (Modality.AUDIO, "audio/wav"): _ANY,
    (Modality.AUDIO, "audio/flac"): _ANY,
    (Modality.AUDIO, "audio/ogg"): frozenset({"vorbis"}),
    (Modality.AUDIO, "audio/mpeg"): _ANY,
    (Modality.VIDEO, "image/gif"): _ANY,
}
"""Part and type to the codecs that are read (None: all that we accept of the type).

Read in the sources of 0.8.2 to 0.9.2: images by the crate `image` without AVIF; sound by symphonia with mp3, flac,
vorbis, wav, isomp4, ogg and pcm, so without AAC and Opus; video natively as GIF only, everything else by an ffmpeg on
the host that is handed the bytes as they are.
"""


def check_engine_reads(modality: Modality, media_type: str, codec: str | None) -> None:
    """`codec` is the decoder's finding, None where a type has but one. Raises MediaRejected `engine-unreadable`."""
    key = (modality, media_type)
    if key not in ENGINE_READS:
        raise MediaRejected("engine-unreadable", f"no engine reads {media_type} as {modality.value}: derive another")
    codecs = ENGINE_READS[key]
    if codecs is not None and codec not in codecs:
        raise MediaRejected("engine-unreadable", f"no engine reads {codec} in {media_type}: derive another")
