"""Bombs and lies: bounds hold on the work that is done, not on what a header says."""

from __future__ import annotations

import io
import os
from typing import Any

import av
import pytest

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.coded_samples import heic, sound_by_ffmpeg

IMAGE, AUDIO, VIDEO = Modality.IMAGE, Modality.AUDIO, Modality.VIDEO
ONE_MIB = 1 << 20


def _two_streams() -> bytes:
    """An MP4 of two videos."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        for _ in range(2):
            stream = container.add_stream("libx264", rate=8)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for stream in container.streams.video:
            frame = av.VideoFrame(96, 64, "yuv420p")
            container.mux([*stream.encode(frame), *stream.encode()])
    return out.getvalue()


BOMBS: dict[str, tuple[Modality, bytes, dict[str, float], str]] = {
    "a PNG of 256 Mpx": (IMAGE, samples.png_claiming(16_000, 16_000), {}, "frame-pixels"),
    "a PNG a little over the pixels": (IMAGE, samples.png_claiming(9_000, 7_200), {}, "frame-pixels"),
    "a strip of 21,000 pixels": (IMAGE, samples.png_claiming(21_000, 2), {}, "frame-side"),
    "a text chunk of 200 MiB": (IMAGE, samples.png_text_bomb(), {}, "image-text"),
    "an international text chunk of 200 MiB": (IMAGE, samples.png_text_bomb(b"iTXt"), {}, "image-text"),
    "a colour profile of 200 MiB": (IMAGE, samples.png_text_bomb(b"iCCP"), {}, "image-text"),
    "80 text chunks of 900 kB": (IMAGE, samples.png_of_many_texts(), {}, "image-text"),
    "an animated PNG": (IMAGE, samples.animation("PNG", 30), {"animation_pixels": 30_000}, "animation-pixels"),
    "an animated WebP": (IMAGE, samples.animation("WEBP", 30), {"animation_pixels": 30_000}, "animation-pixels"),
    "an animated AVIF": (IMAGE, samples.animation("AVIF", 30), {"animation_pixels": 30_000}, "animation-pixels"),
    "a large AVIF": (IMAGE, samples.encode(samples.picture(), "AVIF"), {"frame_pixels": 6_000}, "frame-pixels"),
    "a large HEIC": (IMAGE, heic(samples.picture()), {"frame_pixels": 6_000}, "frame-pixels"),
    "a HEIC that claims 81 Mpx": (IMAGE, heic(samples.picture(), claimed=(9_000, 9_000)), {}, "frame-pixels"),
    "a HEIC that claims other dimensions": (IMAGE, heic(samples.picture(), claimed=(95, 64)), {}, "image-undecodable"),
    "a HEIC whose item is of a type that is no text": (
        IMAGE,
        heic(samples.picture(), exif=b"MM\0\x2a\0\0\0\x08\0\0").replace(b"\0\0Exif", b"\0\0\x7f\xff\xff\xff", 1),
        {},
        "image-undecodable",
    ),
    "a picture with an archive behind it": (
        IMAGE,
        samples.encode(samples.picture(), "PNG") + b"PK\5\6" + bytes(18),
        {"trailing_bytes": 21},
        "trailing-data",
    ),
    "a GIF of 300 frames": (IMAGE, samples.gif_bomb(), {"animation_pixels": 40_000_000}, "animation-pixels"),
    "a GIF of 300 frames as a video": (VIDEO, samples.gif_bomb(side=100), {"video_frames": 100}, "video-frames"),
    "a rate of 2^31 - 1": (AUDIO, samples.wav_claiming(2**31 - 1, 1, 2_000, bytes(2_000)), {}, "audio-rate"),
    "a rate of 100 Hz": (AUDIO, samples.wav_claiming(100, 1, 2_000, bytes(2_000)), {}, "audio-rate"),
    "1,024 channels": (AUDIO, samples.wav_claiming(8_000, 1_024, 20_480, bytes(20_480)), {}, "audio-channels"),
    "4 GiB of samples in 2 kB": (
        AUDIO,
        samples.wav_claiming(8_000, 1, 2**32 - 16, bytes(2_000)),
        {},
        "audio-truncated",
    ),
    "a streamed WAV cut in a block": (
        AUDIO,
        samples.wav_claiming(8_000, 2, 2**32 - 1, bytes(2_001)),
        {},
        "audio-truncated",
    ),
    "an Opus too long": (
        AUDIO,
        samples.sound("opus", 4.0),
        {"audio_duration_s": 3},
        "audio-duration",
    ),
    "an M4A too long": (AUDIO, sound_by_ffmpeg(samples.tone(3.0), 16_000), {"audio_duration_s": 2}, "audio-duration"),
    "an M4A of too low a rate": (
        AUDIO,
        sound_by_ffmpeg(samples.tone(), 16_000),
        {"audio_rate_min_hz": 20_000},
        "audio-rate",
    ),
    "an M4A of two channels": (
        AUDIO,
        sound_by_ffmpeg(samples.tone(channels=2), 16_000),
        {"audio_channels": 1},
        "audio-channels",
    ),
    "an MP3 that claims more bytes": (AUDIO, samples.mp3_claiming(bytes_claimed=1 << 20), {}, "audio-truncated"),
    "a FLAC of 2^36 samples": (AUDIO, samples.flac_claiming_endless(), {}, "audio-undecodable"),
    "a recording too long": (AUDIO, samples.sound("flac", 3.0), {"audio_duration_s": 2}, "audio-duration"),
    "a video too long": (VIDEO, samples.mp4(frames=24), {"video_duration_s": 2}, "video-duration"),
    "a video of too many frames": (VIDEO, samples.webm(frames=24), {"video_frames": 20}, "video-frames"),
    "a video of large frames": (
        VIDEO,
        samples.mp4(size=(640, 360)),
        {"video_frame_pixels": 200_000},
        "frame-pixels",
    ),
    "an image over its bytes": (
        IMAGE,
        samples.encode(samples.noise((600, 600)), "PNG"),
        {"image_bytes": ONE_MIB},
        "encoded-bytes",
    ),
    "a recording over its bytes": (AUDIO, samples.sound("wav", 0.5), {"audio_bytes": 1_000}, "encoded-bytes"),
    "a video over its bytes": (VIDEO, samples.mp4(), {"video_bytes": 1_000}, "encoded-bytes"),
    "an MP4 of endless frames": (VIDEO, samples.still_video(600), {"video_frames": 500}, "video-frames"),
    "an MP4 of 8192 x 8192": (VIDEO, samples.still_video(1, (8_192, 8_192)), {}, "frame-pixels"),
    "an MP4 without its index": (VIDEO, samples.without_index(samples.mp4()), {}, "video-truncated"),
    "an AVI of too many frames": (VIDEO, samples.moving("mpeg4", "avi"), {"video_frames": 11}, "video-frames"),
    "a QuickTime too long": (VIDEO, samples.moving("libx264", "mov"), {"video_duration_s": 1}, "video-duration"),
    "a Matroska of a codec that is not taken": (
        VIDEO,
        samples.moving("mjpeg", "matroska"),
        {},
        "video-codec",
    ),
    "a video of two streams": (VIDEO, _two_streams(), {"media_streams": 1}, "video-streams"),
}


async def _rule(data: bytes, modality: Modality, limits: dict[str, float]) -> tuple[str, str]:
    source = os.memfd_create("part")
    try:
        os.write(source, data)
        async with DecoderPool(limits=Limits().changed(limits), workers=1, stderr=2) as pool:
            with pytest.raises(MediaRejected) as caught:
                await pool.inspect(source, modality=modality)
            return caught.value.rule, caught.value.reason
    finally:
        os.close(source)


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_is_refused_by_the_bound_it_breaks(name: str) -> None:
    """Each hostile file ends with the rule that it broke, and a reason with numbers."""
    modality, data, limits, expected = BOMBS[name]
    rule, reason = await _rule(data, modality, limits)
    assert rule == expected
    assert any(character.isdigit() for character in reason)


SLOW = samples.gif_bomb(frames=1_000)
PATIENT: dict[str, Any] = {"animation_pixels": 1e10}


async def test_a_slow_file_ends_at_the_wall_limit() -> None:
    """A file that is really slow is killed when its time is over."""
    rule, _ = await _rule(SLOW, IMAGE, PATIENT | {"decode_wall_s": 0.3})
    assert rule == "decode-wall-time"


async def test_a_busy_file_ends_at_the_cpu_limit() -> None:
    """CPU time is bounded by the kernel, apart from the wall."""
    rule, _ = await _rule(SLOW, IMAGE, PATIENT | {"decode_cpu_s": 1})
    assert rule == "decode-cpu-time"


async def test_a_file_that_needs_too_much_memory_is_refused() -> None:
    """Address space over the decoder at rest is bounded, and running out is a verdict."""
    large = samples.png_claiming(8_000, 7_900, bytes(8_001 * 7_900))
    rule, _ = await _rule(large, IMAGE, {"decode_memory_bytes": 32 * ONE_MIB})
    assert rule == "decode-memory"
