"""Bytes behind a container's end, tags that belong to it, and headers that claim what is not there."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests import media_samples as samples

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACCEPTED = samples.accepted() | {
    "progressive jpeg": ("image/jpeg", samples.encode(samples.noise((120, 90)), "JPEG", progressive=True)),
    "mpo": (
        "image/jpeg",
        samples.encode(samples.picture(), "MPO", save_all=True, append_images=[samples.picture((48, 32))]),
    ),
    "long stereo flac": ("audio/flac", samples.sound("flac", 3.0, channels=2, subtype="PCM_24")),
    "fragmented mp4": ("video/mp4", samples.mp4(movflags="frag_keyframe+empty_moov")),
    "live webm": (
        "video/webm",
        samples.clip(samples.moving_square((96, 64), 0, 1, 6), "libvpx", options={"live": "1"}),
    ),
}
ID3V1 = b"TAG" + bytes(125)
APEV2 = b"APETAGEX" + struct.pack("<IIII", 2_000, 32 + 9, 1, 0xA0000000) + bytes(8)
APEV2_TAG = APEV2 + bytes(9) + APEV2[:20] + struct.pack("<I", 0x80000000) + bytes(8)
LYRICS3 = b"LYRICSBEGININD0000200000023LYRICS200"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits().narrowed({"trailing_bytes": 0}), workers=1, stderr=2) as decoders:
        yield decoders


async def inspect(pool: DecoderPool, folder: Path, data: bytes, media_type: str) -> Inspection:
    path = folder / "part"
    path.write_bytes(data)
    with path.open("rb") as source:
        return await pool.inspect(source.fileno(), modality=Modality(media_type.partition("/")[0]))


def archive() -> bytes:
    """A whole ZIP, as the second half of a file that is two."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("index.html", "<script>alert(1)</script>")
    return out.getvalue()


@pytest.mark.parametrize("name", ACCEPTED)
async def test_an_archive_behind_any_accepted_file_is_counted_to_the_byte(
    pool: DecoderPool, tmp_path: Path, name: str
) -> None:
    """A file that is also a ZIP says how many of its bytes no decoder of ours looked at; without one it says none."""
    media_type, data = ACCEPTED[name]
    assert "trailing_bytes" not in (await inspect(pool, tmp_path, data, media_type)).findings
    try:
        found = await inspect(pool, tmp_path, data + archive(), media_type)
    except MediaRejected as error:
        assert error.rule in ("audio-undecodable", "video-undecodable", "video-truncated")  # noqa: PT017
    else:
        assert found.findings["trailing_bytes"] == len(archive())


@pytest.mark.parametrize("name", ACCEPTED)
async def test_a_deployment_that_allows_none_refuses_any_tail(strict: DecoderPool, tmp_path: Path, name: str) -> None:
    """With the bound at 0 a whole file passes and one byte more does not."""
    media_type, data = ACCEPTED[name]
    await inspect(strict, tmp_path, data, media_type)
    with pytest.raises(MediaRejected, match="trailing-data"):
        await inspect(strict, tmp_path, data + b"<", media_type)


@pytest.mark.parametrize("tag", [ID3V1, APEV2_TAG, LYRICS3 + ID3V1, APEV2_TAG + ID3V1], ids=range(4))
async def test_a_tag_behind_an_mp3_is_no_tail(strict: DecoderPool, tmp_path: Path, tag: bytes) -> None:
    """ID3v1, APEv2 and Lyrics3 stand behind the frames by design."""
    found = await inspect(strict, tmp_path, samples.sound("mp3") + tag, "audio/mpeg")
    assert found.findings["samples"] == 8_000


async def test_a_tag_before_an_mp3_is_part_of_it(strict: DecoderPool, tmp_path: Path) -> None:
    """ID3v2 comes first, and may be larger than what a sniffer sees."""
    tag = b"ID3\4\0\0\0\0\x40\0" + bytes(8_192)
    await inspect(strict, tmp_path, tag + samples.sound("mp3"), "audio/mpeg")


async def test_a_recording_that_was_streamed_is_whole_to_its_end(strict: DecoderPool, tmp_path: Path) -> None:
    """A WAV whose writer could not go back states no lengths: its samples are all there are."""
    data = bytearray(samples.sound("wav"))
    data[4:8] = data[40:44] = b"\xff\xff\xff\xff"
    found = (await inspect(strict, tmp_path, bytes(data), "audio/wav")).findings
    assert (found["samples"], found["length_unknown"]) == (8_000, 1)


async def test_an_mp3_that_lies_about_its_frames_is_recorded(pool: DecoderPool, tmp_path: Path) -> None:
    """What the Xing header claims stands beside what was found; what decoded is what counts."""
    found = (await inspect(pool, tmp_path, samples.mp3_claiming(frames_claimed=1_000_000), "audio/mpeg")).findings
    assert found["frames_claimed"] == 1_000_000
    assert found["frames_found"] < 100


async def test_junk_between_jpeg_segments_hides_no_tail(strict: DecoderPool, tmp_path: Path) -> None:
    """Decoders skip what is no marker; so does the walk, and a tail behind the picture is seen all the same."""
    data = samples.encode(samples.picture(), "JPEG")
    junk = data[:20] + b"junk" + data[20:]
    assert (await inspect(strict, tmp_path, junk, "image/jpeg")).findings["skipped_bytes"] == 4
    with pytest.raises(MediaRejected, match="trailing-data"):
        await inspect(strict, tmp_path, junk + archive(), "image/jpeg")


async def test_a_file_whose_end_cannot_be_proven_is_not_taken_for_whole(strict: DecoderPool, tmp_path: Path) -> None:
    """A FLAC whose last frame's checksum is wrong has no provable end: no pass where no tail is allowed."""
    data = samples.sound("flac")
    broken = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(MediaRejected, match="trailing-data"):
        await inspect(strict, tmp_path, broken, "audio/flac")


async def test_damage_between_mp3_frames_is_counted(pool: DecoderPool, tmp_path: Path) -> None:
    """Decoders skip what is no frame; how much it was is a finding, not a tail."""
    data = samples.sound("mp3", 2.0)
    middle = data.index(data[:2], len(data) // 2)
    found = (await inspect(pool, tmp_path, data[:middle] + bytes(100) + data[middle:], "audio/mpeg")).findings
    assert "trailing_bytes" not in found
    assert found["skipped_bytes"] == 100
