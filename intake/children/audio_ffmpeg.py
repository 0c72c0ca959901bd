"""Audio that libsndfile does not read (AAC, ALAC), decoded to the last sample by FFmpeg, bounded frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import av
from av.stream import Disposition

from contracts.artifact import MediaType
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import ffmpeg
from intake.children.claims import container_claims
from intake.children.source import Source

CODECS = {
    "audio/mp4": frozenset({"aac", "alac"}),
    "audio/aac": frozenset({"aac"}),
    "audio/mpeg": frozenset({"mp3"}),  # libsndfile stops at a length that it guesses, and loses most of some
}
MEDIA_TYPES = frozenset(CODECS)
_CLAIM_SLACK_S = 1  # encoders pad and prime, and a bit rate is an estimate


def decode_audio(source: Source, media_type: MediaType, limits: Limits) -> dict[str, Any]:
    """Findings, of the same form and with the same refusals as `intake.children.audio.decode_audio`.

    Also raises MediaRejected `audio-streams`: no audio, more streams than allowed, or a form that changes midway.
    """
    run = _Run(limits)
    with ffmpeg.refusals("audio", source, lambda: f"{run.samples} samples"):
        source.seek(0)
        with ffmpeg.open_input(source, media_type.name, limits) as container:
            stream = _choose(container, media_type, limits)
            for frame in ffmpeg.decoded(container, stream, "audio"):
                run.take(frame)
            return _describe(container, stream, media_type, run)


def frames(source: Source, media_type: MediaType, limits: Limits) -> Iterator[av.AudioFrame]:
    """Every decoded frame, checked as `decode_audio` checks it. FFmpeg's own errors come through."""
    run = _Run(limits)
    source.seek(0)
    with ffmpeg.open_input(source, media_type.name, limits) as container:
        for frame in ffmpeg.decoded(container, _choose(container, media_type, limits), "audio"):
            run.take(frame)
            yield frame


def check_form(rate: int, channels: int, limits: Limits) -> None:
    """Raises MediaRejected `audio-rate` or `audio-channels` for a form out of bounds."""
    if not limits.audio_rate_min_hz <= rate <= limits.audio_rate_max_hz:
        bounds = f"{limits.audio_rate_min_hz} to {limits.audio_rate_max_hz}"
        raise MediaRejected("audio-rate", f"{rate} Hz, expected {bounds}")
    if not 1 <= channels <= limits.audio_channels:
        raise MediaRejected("audio-channels", f"{channels} channels, the bound is {limits.audio_channels}")


class _Run:
    """What has been decoded so far, against the bounds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.samples = 0
        self.rate = self.channels = 0

    def take(self, frame: av.AudioFrame) -> None:
        """Count one decoded frame. Raises MediaRejected when it is damaged, too late or of another form."""
        form = (frame.sample_rate, frame.layout.nb_channels)
        if frame.is_corrupt:
            raise MediaRejected("audio-undecodable", f"the frame after {self.samples} samples is damaged")
        if self.samples == 0:
            check_form(*form, self._limits)
            self.rate, self.channels = form
        if form != (self.rate, self.channels):
            change = f"{self.rate} Hz x {self.channels} becomes {form[0]} Hz x {form[1]}"
            raise MediaRejected("audio-streams", f"{change} after {self.samples} samples")
        self.samples += frame.samples
        if self.samples > self._limits.audio_duration_s * self.rate:
            raise MediaRejected("audio-duration", f"longer than {self._limits.audio_duration_s} s")


def _choose(container: av.container.InputContainer, media_type: MediaType, limits: Limits) -> Any:
    """The one audio stream; a cover picture beside it stays undecoded, moving ones are another kind of part."""
    sounds = container.streams.audio
    if any(not each.disposition & Disposition.attached_pic for each in container.streams.video):
        raise MediaRejected("audio-streams", "a video beside the sound: it is no part of kind audio")
    if len(sounds) != 1:
        raise MediaRejected("audio-streams", f"{len(sounds)} sounds among {len(container.streams)} streams, expected 1")
    stream = sounds[0]
    codec = ffmpeg.codec_name(stream)
    if codec not in CODECS[media_type.name]:
        raise MediaRejected("audio-codec", f"{codec} is not an accepted codec of {media_type.name}")
    check_form(stream.codec_context.sample_rate, stream.codec_context.channels, limits)
    ffmpeg.prepare_decoder(stream)
    return stream


def _describe(container: av.container.InputContainer, stream: Any, media_type: MediaType, run: _Run) -> dict[str, Any]:
    if run.samples == 0:
        raise MediaRejected("audio-truncated", "not one sample")
    found: dict[str, Any] = {
        "format": media_type.extension,
        "codec": ffmpeg.codec_name(stream),
        "sample_rate": run.rate,
        "channels": run.channels,
        "samples": run.samples,
        "duration_ms": run.samples * 1_000 // run.rate,
        "streams": len(container.streams),
    }
    claimed = float(stream.duration * stream.time_base) if stream.duration is not None else None
    if claimed is not None and abs(claimed - run.samples / run.rate) > _CLAIM_SLACK_S:
        found["duration_claimed_ms"] = int(claimed * 1_000)
    return found | container_claims(container.metadata)
