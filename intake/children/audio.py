"""Audio, decoded to the last sample by libsndfile (or FFmpeg), within bounds that are checked block by block."""

from __future__ import annotations

import io
from typing import Any

import numpy
import soundfile

from contracts.artifact import MediaType
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import audio_ffmpeg
from intake.children.source import Source

CODECS = {
    "audio/wav": frozenset({"pcm_u8", "pcm_s8", "pcm_s16", "pcm_s24", "pcm_s32", "pcm_f32", "pcm_f64"})
    | {"pcm_mulaw", "pcm_alaw"},
    "audio/flac": frozenset({"pcm_s8", "pcm_s16", "pcm_s24"}),
    "audio/ogg": frozenset({"vorbis", "opus"}),
}
_FORMATS = {"WAV": "audio/wav", "WAVEX": "audio/wav", "FLAC": "audio/flac", "OGG": "audio/ogg"}
_CODECS = {
    **{"PCM_U8": "pcm_u8", "PCM_S8": "pcm_s8", "PCM_16": "pcm_s16", "PCM_24": "pcm_s24", "PCM_32": "pcm_s32"},
    **{"FLOAT": "pcm_f32", "DOUBLE": "pcm_f64", "ULAW": "pcm_mulaw", "ALAW": "pcm_alaw"},
    **{"VORBIS": "vorbis", "OPUS": "opus"},
}
"""No ADPCM: libsndfile 1.2.2's decoders of it overflow (CVE-2026-37555)."""

_BLOCK_SAMPLES = 1 << 16
_COUNT_UNKNOWN = 1 << 60  # libsndfile's SF_COUNT_MAX and its neighbours: the header states no length


def prepare() -> None:
    """Warm what soundfile loads on first use. Call once, before the confinement."""
    for form in ("WAV", "FLAC", "OGG"):
        out = io.BytesIO()
        soundfile.write(out, numpy.zeros(1_000, "int16"), 16_000, format=form)
        soundfile.read(io.BytesIO(out.getvalue()))


def decode_audio(source: Source, media_type: MediaType, limits: Limits) -> dict[str, Any]:
    """Findings of a recording: format, codec, sample_rate (Hz), channels, samples (per channel), duration_ms.

    Raises MediaRejected: `audio-codec`, `audio-rate`, `audio-channels`, `audio-duration`, `audio-truncated`,
    `audio-undecodable`, `type-disagreement`.
    """
    if media_type.name in audio_ffmpeg.MEDIA_TYPES:
        return audio_ffmpeg.decode_audio(source, media_type, limits)
    samples = 0
    try:
        source.seek(0)
        with soundfile.SoundFile(source) as sound:
            _check_header(sound, media_type, limits)
            longest = limits.audio_duration_s * sound.samplerate
            while read := len(sound.read(_BLOCK_SAMPLES, dtype="int16", always_2d=True)):
                samples += read
                if samples > longest:
                    raise MediaRejected("audio-duration", f"longer than {limits.audio_duration_s} s")
            return _describe(sound, samples)
    except (MediaRejected, MemoryError, ImportError):
        raise
    except Exception as error:
        where = f"{type(error).__name__} after {samples} samples, {source.size_bytes} bytes"
        raise MediaRejected("audio-undecodable", where) from error


def _check_header(sound: Any, media_type: MediaType, limits: Limits) -> None:
    said = _FORMATS.get(sound.format)
    if said != media_type.name:
        raise MediaRejected("type-disagreement", f"sniffed {media_type.name}, the decoder says {sound.format}")
    if _CODECS.get(sound.subtype) not in CODECS[media_type.name]:
        raise MediaRejected("audio-codec", f"{sound.subtype} is not an accepted codec")
    audio_ffmpeg.check_form(sound.samplerate, sound.channels, limits)


def _describe(sound: Any, samples: int) -> dict[str, Any]:
    if samples == 0:
        raise MediaRejected("audio-truncated", "not one sample")
    claimed = sound.frames
    if sound.format == "FLAC" and samples < claimed < _COUNT_UNKNOWN:
        raise MediaRejected("audio-truncated", f"the header claims {claimed} samples, {samples} decoded")
    found = {
        "format": {"WAVEX": "wav"}.get(sound.format, sound.format.lower()),
        "codec": _CODECS[sound.subtype],
        "sample_rate": sound.samplerate,
        "channels": sound.channels,
        "samples": samples,
        "duration_ms": samples * 1_000 // sound.samplerate,
    }
    if claimed != samples and claimed < _COUNT_UNKNOWN:
        found["samples_claimed"] = claimed
    return found
