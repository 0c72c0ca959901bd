"""Every accepted form through the real confined pool, and what is refused by name."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from contracts.artifact import Modality
from contracts.digest import Digest
from contracts.errors import MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests import media_samples

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMAGE, AUDIO, VIDEO = Modality.IMAGE, Modality.AUDIO, Modality.VIDEO
ACCEPTED = media_samples.accepted()
STILL = {"width": 96, "height": 64, "frames": 1}
HALF_SECOND = {"sample_rate": 16_000, "channels": 1, "samples": 8_000, "duration_ms": 500}
CLIP = {"width": 96, "height": 64, "frames": 12, "fps": "8", "duration_ms": 1_500, "streams": 1, "audio_streams": 0}
FINDINGS: dict[str, dict[str, Any]] = {
    "png": {"format": "png", "mode": "RGB", **STILL},
    "jpeg": {"format": "jpeg", "mode": "RGB", **STILL},
    "webp": {"format": "webp", "mode": "RGB", **STILL},
    "gif": {"format": "gif", "mode": "P", **STILL},
    "avif": {"format": "avif", "mode": "RGB", **STILL},
    "heic": {"format": "heic", "mode": "RGB", **STILL},
    "wav": {"format": "wav", "codec": "pcm_s16", **HALF_SECOND},
    "flac": {"format": "flac", "codec": "pcm_s16", **HALF_SECOND},
    "vorbis": {"format": "ogg", "codec": "vorbis", **HALF_SECOND},
    "opus": {"format": "ogg", "codec": "opus", **HALF_SECOND},
    "mp3": {"format": "mp3", "codec": "mp3", "streams": 1, **HALF_SECOND},
    "m4a": {"format": "m4a", "codec": "aac", "streams": 1, **HALF_SECOND, "samples": 8_192, "duration_ms": 512},
    "alac": {"format": "m4a", "codec": "alac", "streams": 1, **HALF_SECOND},
    "adts": {"format": "aac", "codec": "aac", "streams": 1, **HALF_SECOND, "samples": 9_216, "duration_ms": 576},
    "mp4": {"format": "mp4", "codec": "h264", **CLIP},
    "webm-vp8": {"format": "webm", "codec": "vp8", **CLIP},
    "webm-vp9": {"format": "webm", "codec": "vp9", **CLIP},
    "mov": {"format": "mov", "codec": "h264", **CLIP},
    "mkv": {"format": "mkv", "codec": "h264", **CLIP},
    "avi": {"format": "avi", "codec": "mpeg4", **CLIP},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


async def inspect(pool: DecoderPool, folder: Path, data: bytes, modality: Modality, name: str = "part") -> Inspection:
    path = folder / name
    path.write_bytes(data)
    with path.open("rb") as source:
        return await pool.inspect(source.fileno(), modality=modality)


async def refusal(pool: DecoderPool, folder: Path, data: bytes, modality: Modality) -> MediaRejected:
    with pytest.raises(MediaRejected) as caught:
        await inspect(pool, folder, data, modality)
    return caught.value


@pytest.mark.parametrize("name", FINDINGS)
async def test_an_accepted_file_is_decoded_and_described(pool: DecoderPool, tmp_path: Path, name: str) -> None:
    """Real encoders' output is accepted; the artifact names its bytes, the findings what was decoded."""
    media_type, data = ACCEPTED[name]
    modality = Modality(media_type.partition("/")[0])
    inspection = await inspect(pool, tmp_path, data, modality)
    assert inspection.artifact.digest == Digest.of(data)
    assert (inspection.artifact.size_bytes, inspection.artifact.media_type) == (len(data), media_type)
    described = {key: value for key, value in inspection.findings.items() if not key.startswith("claimed_")}
    assert described == FINDINGS[name]
    assert inspection.derivative is None
    assert {"seccomp", "rlimits", "no_new_privs"} <= set(inspection.layers)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
async def test_an_animation_as_an_image_is_decoded_whole(pool: DecoderPool, tmp_path: Path, form: str) -> None:
    """An animated image is accepted, and says that it is one."""
    inspection = await inspect(pool, tmp_path, media_samples.animation(form), IMAGE)
    assert (inspection.findings["frames"], inspection.findings["duration_ms"]) == (5, 600)


async def test_a_gif_can_be_a_video(pool: DecoderPool, tmp_path: Path) -> None:
    """The same bytes as a part of kind video are described as one."""
    inspection = await inspect(pool, tmp_path, media_samples.animation("GIF"), VIDEO)
    assert inspection.artifact.modality is VIDEO
    assert inspection.findings["fps"] == "25/3"


async def test_what_phones_write_needs_nothing_that_is_not_loaded(pool: DecoderPool, tmp_path: Path) -> None:
    """EXIF, colour profiles and a second picture use parts that Pillow imports late, which confinement forbids."""
    exif = media_samples.picture().getexif()
    exif[0x0112] = 6
    for form in ("JPEG", "PNG", "WEBP"):
        data = media_samples.encode(media_samples.picture(), form, exif=exif, icc_profile=bytes(200))
        assert (await inspect(pool, tmp_path, data, IMAGE)).findings["orientation"] == 6
    two = media_samples.encode(
        media_samples.picture(), "MPO", save_all=True, append_images=[media_samples.picture((48, 32))]
    )
    assert (await inspect(pool, tmp_path, two, IMAGE)).findings["frames"] == 2


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
async def test_every_accepted_form_of_samples_is_read(pool: DecoderPool, tmp_path: Path, subtype: str) -> None:
    """WAV is a container; its plain codecs are accepted, in stereo too."""
    data = media_samples.sound("wav", channels=2, subtype=subtype)
    assert (await inspect(pool, tmp_path, data, AUDIO)).findings["channels"] == 2


@pytest.mark.parametrize("movflags", ["faststart", "frag_keyframe+empty_moov"])
async def test_every_layout_of_an_mp4_is_read(pool: DecoderPool, tmp_path: Path, movflags: str) -> None:
    """Index first and fragments are how the web serves MP4."""
    assert (await inspect(pool, tmp_path, media_samples.mp4(movflags=movflags), VIDEO)).findings["frames"] == 12


async def test_bytes_behind_the_end_are_counted(pool: DecoderPool, tmp_path: Path) -> None:
    """A tail that no decoder reads is a finding."""
    for name in ("png", "gif", "webp", "wav"):
        media_type, data = ACCEPTED[name]
        tail = b"<html><script>" if name != "wav" else b"tail"
        found = (await inspect(pool, tmp_path, data + tail, Modality(media_type.partition("/")[0]))).findings
        assert found["trailing_bytes"] == len(tail)


@pytest.mark.parametrize("name", FINDINGS)
@pytest.mark.parametrize("kept", [30, 60, 95])
async def test_a_file_that_was_cut_is_refused(pool: DecoderPool, tmp_path: Path, name: str, kept: int) -> None:
    """No prefix of a file passes for the file, and the refusal names truncation, or damage where nothing states a
    length."""
    media_type, data = ACCEPTED[name]
    modality = Modality(media_type.partition("/")[0])
    error = await refusal(pool, tmp_path, data[: len(data) * kept // 100], modality)
    allowed = {f"{modality.value}-truncated"} | ({"audio-undecodable"} if name == "flac" else set())
    assert error.rule in allowed
    assert any(character.isdigit() for character in error.reason)


@pytest.mark.parametrize("kind", ["m3u8", "ffconcat", "sdp", "dash", "svg", "html", "pdf", "postscript"])
async def test_a_script_is_refused_by_name_and_reaches_nothing(pool: DecoderPool, tmp_path: Path, kind: str) -> None:
    """Under every modality and an innocent name, a playlist or page is refused, and nobody dials what it names."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/secret.ts"
        data = media_samples.texts_that_make_requests(url)[kind]
        for modality in Modality:
            assert (await refusal(pool, tmp_path, data, modality)).rule == "type-not-accepted"
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    ("data", "modality", "rule"),
    [
        pytest.param(b"", IMAGE, "type-unknown", id="an empty file"),
        pytest.param(bytes(range(128, 256)) * 2, IMAGE, "type-", id="noise"),
        pytest.param(b"just words\n", IMAGE, "type-not-accepted", id="text"),
        pytest.param(ACCEPTED["wav"][1], IMAGE, "type-modality", id="a sound as an image"),
        pytest.param(ACCEPTED["png"][1], VIDEO, "type-modality", id="a still as a video"),
        pytest.param(b"GIF89a/*\0\0\0*/=1;", IMAGE, "image-", id="a GIF that is a script"),
        pytest.param(media_samples.encode(media_samples.picture(), "BMP"), IMAGE, "type-not-accepted", id="BMP"),
        pytest.param(media_samples.encode(media_samples.picture(), "TIFF"), IMAGE, "type-not-accepted", id="TIFF"),
        pytest.param(media_samples.sound("wav", subtype="IMA_ADPCM"), AUDIO, "audio-codec", id="ADPCM"),
    ],
)
async def test_what_is_not_accepted_has_its_rule(
    pool: DecoderPool, tmp_path: Path, data: bytes, modality: Modality, rule: str
) -> None:
    """A wrong type behind an innocent name is refused by the rule that saw it."""
    assert (await refusal(pool, tmp_path, data, modality)).rule.startswith(rule)


async def test_what_changes_after_hashing_changes_nothing(pool: DecoderPool, tmp_path: Path) -> None:
    """The digest is of the bytes that were decoded, whatever the file holds by then; its position is not moved."""
    data = ACCEPTED["png"][1]
    path = tmp_path / "part.png"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, 5, os.SEEK_SET)
        inspection = await pool.inspect(descriptor, modality=IMAGE)
        path.write_bytes(bytes(len(data)))
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 5
    finally:
        os.close(descriptor)
    assert inspection.artifact.digest == Digest.of(data)
