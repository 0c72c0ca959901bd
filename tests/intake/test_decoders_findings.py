"""What a medium says about itself: size as shown, time, place, device, profile, manifest. Recorded, not trusted."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image, ImageCms

from contracts.artifact import Modality
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.coded_samples import heic

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANIFEST = b"\0\0\0\x20jumb" + bytes(24)
C2PA_UUID = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


async def findings(pool: DecoderPool, folder: Path, data: bytes, modality: Modality) -> dict[str, Any]:
    path = folder / "part"
    path.write_bytes(data)
    with path.open("rb") as source:
        return (await pool.inspect(source.fileno(), modality=modality)).findings


def phone_exif() -> Image.Exif:
    """What a phone that was held upright writes."""
    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0131], exif[0x0112] = "Maker", "Model 5", "17.4", 6
    details, place = exif.get_ifd(0x8769), exif.get_ifd(0x8825)
    details[0x9003], details[0x9011] = "2026:05:01 12:30:00", "+02:00"
    place[1], place[2], place[3], place[4] = "N", (52.0, 30.0, 36.0), "W", (13.0, 15.0, 0.0)
    return exif


CLAIMED = {
    "claimed_make": "Maker",
    "claimed_model": "Model 5",
    "claimed_software": "17.4",
    "claimed_time": "2026:05:01 12:30:00+02:00",
    "claimed_location": "+52.510000-13.250000/",
}


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "AVIF"])
async def test_a_picture_says_when_where_and_with_what_it_was_taken(
    pool: DecoderPool, tmp_path: Path, form: str
) -> None:
    """EXIF is recorded as what it claims, and the dimensions stand as stored and as shown."""
    found = await findings(pool, tmp_path, samples.encode(samples.picture(), form, exif=phone_exif()), Modality.IMAGE)
    assert {name: value for name, value in found.items() if name.startswith("claimed_")} == CLAIMED
    assert (found["width"], found["height"], found["orientation"]) == (96, 64, 6)
    assert (found["shown_width"], found["shown_height"]) == (64, 96)


async def test_a_heic_is_turned_by_its_own_rotation_alone(pool: DecoderPool, tmp_path: Path) -> None:
    """The file's rotation is applied by its decoder; an EXIF orientation beside it says the same and turns nothing."""
    found = await findings(
        pool, tmp_path, heic(samples.picture(), exif=phone_exif().tobytes(), quarter_turns=3), Modality.IMAGE
    )
    assert {name: value for name, value in found.items() if name.startswith("claimed_")} == CLAIMED
    assert (found["width"], found["height"]) == (64, 96)
    assert "orientation" not in found


async def test_exif_that_cannot_be_read_is_a_finding(pool: DecoderPool, tmp_path: Path) -> None:
    """A picture whose pixels are whole is accepted; that its EXIF is not is said."""
    data = samples.encode(samples.picture(), "PNG", exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\xff\xff")
    found = await findings(pool, tmp_path, data, Modality.IMAGE)
    assert found["width"] == 96
    assert not any(name.startswith("claimed_") for name in found)


async def test_hostile_text_in_exif_is_cut_and_made_printable(pool: DecoderPool, tmp_path: Path) -> None:
    """No control character and no page of text gets into a record."""
    exif = Image.Exif()
    exif[0x0110] = "\x1b[31m" + "A" * 10_000
    found = await findings(pool, tmp_path, samples.encode(samples.picture(), "PNG", exif=exif), Modality.IMAGE)
    assert found["claimed_model"] == ("[31m" + "A" * 10_000)[:128]


async def test_a_colour_profile_is_named(pool: DecoderPool, tmp_path: Path) -> None:
    """By the description in the profile."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    found = await findings(
        pool, tmp_path, samples.encode(samples.picture(), "JPEG", icc_profile=profile), Modality.IMAGE
    )
    assert found["colour_profile_bytes"] == len(profile)
    assert "sRGB" in found["colour_profile"]


async def test_a_turned_video_has_its_dimensions_as_shown(pool: DecoderPool, tmp_path: Path) -> None:
    """A phone that was held upright stores landscape with a matrix."""
    found = await findings(pool, tmp_path, samples.turned(samples.mp4(), (0, 1, -1, 0)), Modality.VIDEO)
    assert (found["width"], found["height"], found["shown_width"], found["shown_height"]) == (96, 64, 64, 96)


def _png() -> bytes:
    data = samples.encode(samples.picture(), "PNG")
    return data[:33] + samples.png_chunk(b"caBX", MANIFEST) + data[33:]


def _jpeg() -> bytes:
    segment = b"JP\0\1\0\0\0\1" + MANIFEST
    data = samples.encode(samples.picture(), "JPEG")
    return data[:2] + b"\xff\xeb" + struct.pack(">H", len(segment) + 2) + segment + data[2:]


def _riff(name: str) -> bytes:
    data = samples.accepted()[name][1]
    chunk = b"C2PA" + struct.pack("<I", len(MANIFEST)) + MANIFEST
    body = data[8:] + chunk
    return data[:4] + struct.pack("<I", len(body)) + body


def _gif() -> bytes:
    data = samples.encode(samples.picture(), "GIF")
    return data[:-1] + b"\x21\xff\x0bC2PA_GIF\1\0\0" + bytes([len(MANIFEST)]) + MANIFEST + b"\0" + data[-1:]


def _boxed(name: str) -> bytes:
    body = C2PA_UUID + MANIFEST
    return samples.accepted()[name][1] + struct.pack(">I", len(body) + 8) + b"uuid" + body


SIGNED = {
    "png": (_png, Modality.IMAGE),
    "jpeg": (_jpeg, Modality.IMAGE),
    "gif": (_gif, Modality.IMAGE),
    "webp": (lambda: _riff("webp"), Modality.IMAGE),
    "avif": (lambda: _boxed("avif"), Modality.IMAGE),
    "heic": (lambda: _boxed("heic"), Modality.IMAGE),
    "wav": (lambda: _riff("wav"), Modality.AUDIO),
    "m4a": (lambda: _boxed("m4a"), Modality.AUDIO),
    "mp4": (lambda: _boxed("mp4"), Modality.VIDEO),
    "mov": (lambda: _boxed("mov"), Modality.VIDEO),
    "avi": (lambda: _riff("avi"), Modality.VIDEO),
}


@pytest.mark.parametrize("name", SIGNED)
async def test_that_there_is_a_manifest_is_found(pool: DecoderPool, tmp_path: Path, name: str) -> None:
    """A C2PA manifest is counted where its specification puts it in each format, and is no tail; whether it holds is
    not for the decoder to say."""
    make, modality = SIGNED[name]
    found = await findings(pool, tmp_path, make(), modality)
    assert found["c2pa_bytes"] >= len(MANIFEST)
    assert "trailing_bytes" not in found
