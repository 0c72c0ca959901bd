"""Recordings and clips of which parts are passed over in silence, and forms of good ones that are easily mistaken."""

from __future__ import annotations

import io
import random
import tempfile
from typing import Any

import numpy as np
import pytest
import soundfile

from contracts.artifact import Modality
from contracts.limits import Limits
from intake.children.audio_lengths import _mp3_frame
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.child_verdicts import verdict
from tests.coded_samples import sound_by_ffmpeg

LIMITS = Limits()
RATES = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
SECONDS = 2


def sound(rate: int, channels: int = 1) -> Any:
    """Sound that no encoder finds easy, float32 of shape (samples, channels)."""
    noise = np.random.default_rng(rate).normal(0, 0.1, (SECONDS * rate, channels))
    return (noise + 0.3 * np.sin(np.arange(SECONDS * rate) * 440 * 2 * np.pi / rate)[:, None]).astype("float32")


def mp3(rate: int, channels: int = 1, mode: str = "VARIABLE") -> bytes:
    out = io.BytesIO()
    soundfile.write(out, sound(rate, channels), rate, format="MP3", bitrate_mode=mode)
    return out.getvalue()


@pytest.mark.parametrize("mode", ["CONSTANT", "AVERAGE", "VARIABLE"])
@pytest.mark.parametrize("rate", RATES)
def test_a_whole_mp3_is_taken_whole(rate: int, mode: str) -> None:
    """Of every version, rate and kind of bit rate; what the encoder added before and behind is no loss."""
    for channels in (1, 2):
        assert verdict(mp3(rate, channels, mode), "audio")["findings"]["samples"] == SECONDS * rate


def test_an_mp3_without_a_tag_of_its_encoder_is_taken() -> None:
    """Its first frames are sound."""
    data = mp3(44_100, mode="CONSTANT")
    first = _mp3_frame(data[:8])
    assert first is not None
    assert verdict(data[first[0] :], "audio")["findings"]["samples"] > SECONDS * 44_100 - 2 * 1_152


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_an_mp3_never_loses_more_than_damage_takes(rate: int) -> None:
    """However the damage looks: libsndfile left out all that follows one header that it could not read."""
    data, each, seen = mp3(rate, 2, "CONSTANT"), 1_152 if rate >= 32_000 else 576, set[str]()
    for seed in range(60):
        chance = random.Random(seed)
        place, length = chance.randrange(1_500, len(data) - 500), chance.choice([1, 4, 60])
        found = verdict(data[:place] + chance.randbytes(length) + data[place + length :], "audio")
        seen.add(found.get("rule", "accepted"))
        if "findings" in found:
            assert found["findings"]["samples"] >= SECONDS * rate - 3 * each
    assert seen <= {"accepted", "audio-truncated", "audio-undecodable", "audio-streams"}


def test_sound_alone_in_an_mp4_of_any_brand_is_sound() -> None:
    """Most brands do not say what is in the file; a clip is no recording all the same, nor is sound a clip."""
    data = sound_by_ffmpeg(sound(44_100, 2), 44_100, "mp4", "aac")
    assert data[4:12] == b"ftypisom"
    assert verdict(data, "audio")["media_type"] == "audio/mp4"
    assert verdict(data, "video")["rule"] == "video-streams"
    assert verdict(samples.mp4(), "audio")["rule"] == "audio-streams"


def test_a_tag_before_aac_is_a_tag() -> None:
    """ID3v2 is MP3's, and stands before ADTS as well."""
    data = sound_by_ffmpeg(sound(44_100), 44_100, "adts", "aac")
    tagged = b"ID3\x04\0\0\0\0\0\x0aTIT2\0\0\0\0\0\0" + data
    assert verdict(tagged, "audio")["findings"]["samples"] == verdict(data, "audio")["findings"]["samples"]


async def test_the_parent_takes_these_for_what_the_child_does() -> None:
    """It looks at the first bytes itself, and kills a child that says otherwise."""
    tagged = b"ID3\x04\0\0\0\0\0\x0aTIT2\0\0\0\0\0\0" + sound_by_ffmpeg(sound(44_100), 44_100, "adts", "aac")
    alone = sound_by_ffmpeg(sound(44_100), 44_100, "mp4", "aac")
    async with DecoderPool(limits=LIMITS, workers=1, stderr=2) as pool:
        for data, expected in ((tagged, "audio/aac"), (alone, "audio/mp4"), (mp3(44_100), "audio/mpeg")):
            with tempfile.TemporaryFile() as file:
                file.write(data)
                file.flush()
                inspection = await pool.inspect(file.fileno(), modality=Modality.AUDIO)
            assert inspection.artifact.media_type == expected


def test_damage_within_a_live_webm_is_not_its_end() -> None:
    """A Segment of unknown length ends where its elements do, and no Cluster follows."""
    clip = samples.clip(
        samples.moving_square((96, 64), 0, 1, 24), "libvpx", options={"live": "1", "cluster_time_limit": "100"}
    )
    assert verdict(clip, "video")["findings"]["frames"] == 24
    cluster = b"\x1f\x43\xb6\x75"
    assert clip.count(cluster) > 2
    second = clip.index(cluster, clip.index(cluster) + 1)
    damaged = clip[:second] + b"\0\0\0\0" + clip[second + 4 :]
    assert verdict(damaged, "video")["rule"] == "video-undecodable"
