"""A recording as a release needs it: PCM of 16 bits at one rate, and nothing in the file but its samples."""

from __future__ import annotations

import io
import struct
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
import soundfile

from contracts.digest import Digest, canonical_json
from contracts.errors import MediaRejected
from contracts.limits import Limits
from contracts.records import Derivative
from intake.decoders import DecoderPool
from tests import coded_samples
from tests import media_samples as samples
from tests.deriving import bare, derived, made

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


def wav(samples_: Any, rate: int, subtype: str = "PCM_16", form: str = "WAV") -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples_, rate, format=form, subtype=subtype)
    return out.getvalue()


def heard(derivative: Derivative) -> tuple[Any, int]:
    """The samples of a derivative in 16 bits, shape (samples, channels), and its rate."""
    found: tuple[Any, int] = soundfile.read(io.BytesIO(derivative.data), dtype="int16", always_2d=True)
    return found


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000, 96_000])
async def test_a_tone_stays_the_tone_it_was(pool: DecoderPool, rate: int) -> None:
    """From any rate to 16 kHz: as long, as high and as loud, in phase, within a thousandth of full scale."""
    derivative = made(await derived(pool, wav(samples.tone(2.0, rate), rate), "audio"))
    got, got_rate = heard(derivative)
    assert (got_rate, got.shape) == (16_000, (32_000, 1))
    expected = samples.tone(2.0, 16_000)[:, 0]
    inner = slice(400, -400)  # a filter has nothing to go by before the beginning and behind the end
    assert np.abs(got[inner, 0] / 32_768 - expected[inner]).max() < 0.001
    said = derivative.transformation
    assert (said["samples"], said["from_rate_hz"], said["resampler"]) == (32_000, rate, "swresample s32p")


async def test_what_is_above_the_new_rate_does_not_fold_back(pool: DecoderPool) -> None:
    """12 kHz cannot be said at 16 kHz: it is silent, not 4 kHz."""
    got, _ = heard(made(await derived(pool, wav(samples.tone(1.0, 48_000, hertz=12_000), 48_000), "audio")))
    assert np.abs(got[400:-400]).max() < 0.002 * 32_768


async def test_samples_of_16_bits_pass_exactly(pool: DecoderPool) -> None:
    """Where only metadata goes, each sample is the one that was there, in one channel and in two."""
    for channels in (1, 2):
        noise = np.random.default_rng(7).integers(-32_768, 32_768, (20_000, channels), dtype=np.int16)
        noted = wav(noise, 16_000) + b"LIST" + struct.pack("<I", 14) + b"INFOINAM\x02\0\0\0me"
        noted = noted[:4] + struct.pack("<I", len(noted) - 8) + noted[8:]
        derivative = made(await derived(pool, noted, f"audio:channels={channels}"))
        assert np.array_equal(heard(derivative)[0], noise)
        assert bare("audio/wav", derivative.data)
        assert not bare("audio/wav", noted)
        assert len(derivative.data) == 44 + noise.size * 2
        assert derivative.transformation["resampler"] == derivative.transformation["mix"] == "none"


async def test_channels_are_mixed_as_said(pool: DecoderPool) -> None:
    """Two become one by their mean, one becomes two by copying, six become two with the centre in both."""
    two = np.array([[100, 201], [-32_768, -32_768], [32_767, 32_767], [5, -6]] * 500, np.int16)
    mono = made(await derived(pool, wav(two, 16_000), "audio"))
    assert heard(mono)[0][:4, 0].tolist() == [151, -32_768, 32_767, 0]
    assert mono.transformation["mix"] == "mean"
    stereo = made(await derived(pool, wav(two[:, :1], 16_000), "audio:channels=2"))
    assert np.array_equal(heard(stereo)[0], np.repeat(two[:, :1], 2, axis=1))
    six = np.zeros((4_000, 6), np.int16)
    six[:, 2] = 10_000  # front centre
    down = made(await derived(pool, wav(six, 16_000), "audio:channels=2"))
    middle = heard(down)[0][2_000]
    assert middle[0] == middle[1] > 2_000
    assert down.transformation["mix"] == "ffmpeg-layout"


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
async def test_every_depth_becomes_16_bits(pool: DecoderPool, subtype: str) -> None:
    """Full scale is full scale, and what is beyond it in a float is clipped, not wrapped."""
    wave = samples.tone(0.2, 16_000)
    got, _ = heard(made(await derived(pool, wav(wave, 16_000, subtype), "audio")))
    assert np.abs(got / 32_768 - wave).max() < (0.009 if subtype == "PCM_U8" else 0.0001)
    if subtype in ("FLOAT", "DOUBLE"):
        loud, _ = heard(made(await derived(pool, wav(wave * 5, 16_000, subtype), "audio")))
        assert (loud.max(), loud.min()) == (32_767, -32_768)


@pytest.mark.parametrize("form", ["flac", "vorbis", "opus", "mp3"])
async def test_every_codec_becomes_pcm(pool: DecoderPool, form: str) -> None:
    """A tone of half a second is one, whatever it was packed in."""
    got, rate = heard(made(await derived(pool, samples.sound(form, rate=48_000, channels=2), "audio")))
    assert rate == 16_000
    assert len(got) / rate == pytest.approx(0.5, abs=0.1)
    spectrum = np.abs(np.fft.rfft(got[:, 0]))
    assert np.argmax(spectrum) * rate / len(got) == pytest.approx(440, abs=4)


@pytest.mark.parametrize(("form", "codec"), [("ipod", "aac"), ("ipod", "alac"), ("adts", "aac")])
async def test_what_no_engine_reads_becomes_pcm(pool: DecoderPool, form: str, codec: str) -> None:
    """AAC and ALAC, which only FFmpeg decodes here, in two channels; ALAC to the bit."""
    wave = samples.tone(0.5, 16_000, channels=2)
    data = coded_samples.sound_by_ffmpeg(wave, 16_000, form, codec)
    got, _ = heard(made(await derived(pool, data, "audio:channels=2")))
    assert len(got) == pytest.approx(8_000, abs=3_000)  # encoders prime and pad
    spectrum = np.abs(np.fft.rfft(got[:, 0]))
    assert np.argmax(spectrum) * 16_000 / len(got) == pytest.approx(440, abs=4)
    if codec == "alac":
        assert np.abs(got[:8_000] / 32_768 - wave[: len(got)]).max() < 0.0001


async def test_what_is_normal_already_is_not_derived(pool: DecoderPool) -> None:
    """Our own result, and a WAV that has nothing to lose; with a byte behind it there is something."""
    plain = wav(samples.tone(0.3), 16_000)
    assert (await derived(pool, plain, "audio")).derivative is None
    assert (await derived(pool, plain + b"\0", "audio")).derivative is not None
    other = made(await derived(pool, plain, "audio:rate=8000,channels=2"))
    assert (await derived(pool, other.data, "audio:rate=8000,channels=2")).derivative is None


async def test_a_derivative_that_would_be_too_long_is_refused(pool: DecoderPool) -> None:
    """A minute and a half in two channels at 192 kHz is over 64 MiB; nothing of it is handed on."""
    quiet = wav(np.zeros(90 * 4_000, np.int16), 4_000, form="FLAC")
    with pytest.raises(MediaRejected, match="derivative-bytes"):
        await derived(pool, quiet, "audio:rate=192000,channels=2")


async def test_two_pools_make_the_same_bytes() -> None:
    """Same input, same recipe: same file and same canonical transformation, in processes that never met."""
    noise = np.random.default_rng(3).normal(0, 0.2, (90_000, 2)).astype(np.float32)
    for data in (wav(noise, 44_100, "FLOAT"), samples.sound("mp3", rate=44_100)):
        results = []
        for _ in range(2):
            async with DecoderPool(limits=Limits(), workers=1, stderr=2) as fresh:
                results.append(made(await derived(fresh, data, "audio")))
        assert Digest.of(results[0].data) == Digest.of(results[1].data)
        assert canonical_json(results[0].transformation) == canonical_json(results[1].transformation)
        assert "av " in results[0].transformation["tool"]
