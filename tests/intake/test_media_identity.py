"""Identity is of encoded bytes with their type: equal pixels or samples in another shape are another medium."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from PIL import Image

from contracts.artifact import Modality
from contracts.derivation_spec import parse_derivation
from contracts.digest import Digest
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests import media_samples as samples

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHAPES = [(96, 64), (64, 96), (32, 192), (6144, 1)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1) as decoders:
        yield decoders


async def _inspect(pool: DecoderPool, data: bytes, modality: Modality, spec: str | None = None) -> Inspection:
    descriptor = os.memfd_create("medium", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        recipe = None if spec is None else parse_derivation(spec)
        return await pool.inspect(descriptor, modality=modality, derive=recipe)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("container", ["PNG", "GIF", "WEBP"])
async def test_equal_pixels_of_another_shape_are_another_picture(pool: DecoderPool, container: str) -> None:
    """One run of pixel bytes as four shapes: four identities, of the originals and of what is derived from them."""
    pixels = samples.picture((96, 64)).tobytes()
    pictures = [samples.encode(Image.frombytes("RGB", shape, pixels), container) for shape in SHAPES]
    found = [await _inspect(pool, data, Modality.IMAGE, "image:format=png,max_side=8192") for data in pictures]
    assert {each.artifact.digest for each in found} == {Digest.of(data) for data in pictures}
    made = [each.derivative.data if each.derivative else data for each, data in zip(found, pictures, strict=True)]
    for identities in ({each.artifact.digest for each in found}, {Digest.of(data) for data in made}):
        assert len(identities) == len(SHAPES)


async def test_equal_samples_in_another_form_are_another_sound(pool: DecoderPool) -> None:
    """The same PCM bytes at another rate, or as two channels instead of one."""
    pcm = bytes(range(256)) * 64
    forms = [(8_000, 1), (16_000, 1), (8_000, 2)]
    found = [await _inspect(pool, samples.wav_claiming(*form, len(pcm), pcm), Modality.AUDIO) for form in forms]
    assert len({each.artifact.digest for each in found}) == len(forms)
    assert [(each.findings["sample_rate"], each.findings["channels"]) for each in found] == forms


async def test_the_same_bytes_for_another_kind_of_part_are_another_artifact(pool: DecoderPool) -> None:
    """An animation as a picture and as a video: one digest, two artifacts."""
    data = samples.animation("GIF")
    picture, video = [(await _inspect(pool, data, kind)).artifact for kind in (Modality.IMAGE, Modality.VIDEO)]
    assert picture.digest == video.digest
    assert picture != video
    assert picture.to_json() != video.to_json()
