"""Renders docs/media.md from the tables that the decoders are made of: python -m docs.render_media > docs/media.md"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from contracts.artifact import MEDIA_TYPES, MediaType, Modality
from contracts.engine_media import ENGINE_READS
from contracts.limits import Limits
from contracts.signatures import REFUSED_NAMES
from intake.children import audio, audio_ffmpeg, heif, video

_LIMITS = {
    Modality.IMAGE: ("image_bytes", "frame_pixels", "frame_side_px", "animation_pixels"),
    Modality.AUDIO: (
        *("audio_bytes", "audio_duration_s", "audio_channels", "audio_rate_min_hz", "audio_rate_max_hz"),
        "media_streams",
    ),
    Modality.VIDEO: (
        *("video_bytes", "video_duration_s", "video_frames", "video_frame_pixels", "frame_side_px", "media_streams"),
    ),
}
_IMAGE_CODECS = {
    "image/png": frozenset({"png", "apng"}),
    "image/jpeg": frozenset({"jpeg"}),
    "image/webp": frozenset({"vp8", "vp8l"}),
    "image/gif": frozenset({"gif"}),
    "image/avif": frozenset({"av1"}),
    "image/heic": frozenset({"hevc"}),
}
_ALL = ("trailing_bytes", "decode_wall_s", "decode_cpu_s", "decode_memory_bytes")
_INTRODUCTION = """\
# Media

Generated from the code by `docs/render_media.py`; a test fails when this page is stale.

Every file is decoded to its end, inside bounds, in a process that can only compute. Three opinions must agree on what
it is: libmagic, our own signature table, and the decoder. Names and declared types are no opinion."""
_FINDINGS = """\
## Findings

Facts of what was decoded: `format`, `codec`, `width`, `height`, `mode`, `frames`, `fps`, `duration_ms`,
`sample_rate`, `channels`, `samples`, `streams`. Where a medium is to be shown turned: `orientation` (EXIF, 1 to 8),
`shown_width`, `shown_height`; a HEIC is described as shown. Facts of its structure: `trailing_bytes` behind the
container's end, `end_unknown`, `skipped_bytes` between frames or segments, `unknown_bytes` in parts that decoders pass
over, `length_unknown` where its writer could not go back, `c2pa_bytes` of a manifest (that there is one, not that it
holds). Header claims that differ from what was decoded: `samples_claimed`, `frames_claimed`, `frames_found`,
`duration_claimed_ms`.

What anybody can write is recorded under `claimed_time`, `claimed_make`, `claimed_model`, `claimed_software` and
`claimed_location`, and never trusted; `colour_profile` and `colour_profile_bytes` come from an ICC profile,
`exif_unreadable` says that there was EXIF and nobody could read it. A derivative carries none of it."""
_TAILS = """\
## Bytes behind the end

A file can be two: a picture to one program, an archive or a page to another. Where a container ends is found for every
accepted type, by its structure and not by what a decoder left over, and the bytes behind it are counted. Up to
`trailing_bytes` they are a finding, because phones append clips to pictures; beyond, the file is refused by
`trailing-data`. A deployment that sets the limit to 0 takes no such file. Tags that belong to a format (ID3, APEv2 and
Lyrics3 of MP3, the further pictures of an MPF index) are no tail. Bytes hidden inside a container's own spare parts
(comments, `free` boxes, padding) are not looked for: a derivative drops them.

A file that ends before its container does is refused by `image-truncated`, `audio-truncated` or `video-truncated`,
with the place. A WAV that was written as a stream, its lengths all ones, goes to the end of the file.
So is one of which a decoder gives fewer pictures, or fewer samples of an MP3, than its structure has, a PNG or APNG
without all of its rows, and a GIF with a frame whose own data ends before its pixels do. An APNG without the chunk that
makes it one has lost its frames. A PNG of palette indices needs its palette.

A JPEG is decoded by libjpeg-turbo with its warnings as errors, and by FFmpeg with none repaired, every coefficient of
every picture: Pillow shows grey where blocks are missing and says nothing. Its scans must bring every bit of every
coefficient of every component: a progressive JPEG without its last scans is a blurred one. Up to 16 bytes of padding
between the last block and the end, as some cameras leave, are counted as `skipped_bytes`; any elsewhere in a scan are
damage. A JPEG has no checksum, so bytes that were changed into other valid codes of as many blocks are seen by nobody:
of 1,467 photographs and pictures of noise of which half a kilobyte or more was cut out, zeroed or doubled, four passed.
One of two components, or with a sampling that libjpeg-turbo has no name for (CMYK with two components half as wide,
4:1:0), cannot be checked, and is refused by `image-undecodable` as lossless ones are.

What can be seen in the other forms: a PNG has checksums, and all of its rows. A GIF's frames are held against their own
data. A HEIC with a hole of three zeros or more is refused, since HEVC codes nothing so; its slices do not say how much
of them is code, and libde265 does not tell, so one that was cut and had its unit's length mended is seen by nobody. Nor
does dav1d tell of an AVIF, or libwebp of a WebP, whether the code that they were given was read to its exact end: where
it ends too early for them they refuse it, but bytes that were changed, doubled or taken from the middle are other valid
code."""


def render() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for modality in Modality:
        types = [each for each in MEDIA_TYPES.values() if modality in each.modalities]
        parts += [
            f"## As {'an' if modality is not Modality.VIDEO else 'a'} {modality.value} part",
            _table(("type", "staged as", "decoder", "codecs", "an engine reads it"), _rows(modality, types)),
            "Bounds (contracts/limits): " + _bounds(_LIMITS[modality]) + ".",
        ]
    parts += [
        "Bounds of all: " + _bounds(_ALL) + ".",
        "What no engine reads itself needs a derivative; without one the part is refused by `engine-unreadable` before "
        "it is staged.",
        "## Refused by name",
        "Everything else. These are recognised, so that the refusal says what it was: "
        + ", ".join(f"`{name}`" for name in sorted(REFUSED_NAMES))
        + ".",
        _TAILS,
        _FINDINGS,
    ]
    return "\n\n".join(parts) + "\n"


def _rows(modality: Modality, types: Iterable[MediaType]) -> Iterator[tuple[str, ...]]:
    for each in types:
        decoder, codecs = _decoder(modality, each.name)
        yield f"`{each.name}`", f".{each.extension}", decoder, ", ".join(sorted(codecs)), _read(modality, each.name)


def _decoder(modality: Modality, name: str) -> tuple[str, Iterable[str]]:
    if modality is Modality.IMAGE or name == "image/gif":
        return ("libheif" if name in heif.MEDIA_TYPES else "Pillow"), _IMAGE_CODECS[name]
    if modality is Modality.VIDEO:
        return "FFmpeg", video.CODECS[name]
    if name in audio_ffmpeg.MEDIA_TYPES:
        return "FFmpeg", audio_ffmpeg.CODECS[name]
    return "libsndfile", audio.CODECS[name]


def _read(modality: Modality, name: str) -> str:
    if (modality, name) not in ENGINE_READS:
        return "no"
    codecs = ENGINE_READS[modality, name]
    return "yes" if codecs is None else ", ".join(sorted(codecs))


def _bounds(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}` {getattr(Limits(), name):,}" for name in names)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(columns)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *map(list, rows)))


if __name__ == "__main__":
    sys.stdout.write(render())
