"""Derivatives: the recorded frames are the frames, and the same video gives the same bytes."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from contracts.artifact import Modality
from contracts.derivation import FRAMES
from contracts.digest import canonical_json
from contracts.errors import InputError, MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.deriving import derived, made

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


def red_centres(data: bytes, axis: int = 1) -> list[float]:
    """Where the red square is in each frame of a GIF, as a fraction of the width (axis 1) or height (axis 0)."""
    places = []
    with Image.open(io.BytesIO(data)) as image:
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            pixels = np.asarray(image.convert("RGB")).astype(int)
            red = np.nonzero((pixels[..., 0] > 150) & (pixels[..., 1] < 90))[axis]
            places.append(float(red.mean()) / pixels.shape[axis])
    return places


@pytest.mark.parametrize("codec", ["libx264", "libvpx", "libvpx-vp9"])
async def test_the_frames_taken_are_the_ones_recorded(pool: DecoderPool, codec: str) -> None:
    """Eight evenly spaced frames, ends included; each shows the square where it was in that frame of the video."""
    data = samples.clip(samples.moving_square((96, 64), 0.25, 0.75, 29), codec, rate=25)
    derivative = made(await derived(pool, data, FRAMES))
    recorded = derivative.transformation
    assert recorded["positions"] == [0, 4, 8, 12, 16, 20, 24, 28]
    assert (recorded["name"], recorded["frames"], recorded["delay_ms"]) == ("frames-to-gif", 8, 120)
    expected = [0.25 + 0.5 * position / 28 for position in recorded["positions"]]
    assert red_centres(derivative.data) == pytest.approx(expected, abs=0.02)


async def test_a_long_video_is_thinned_within_half_a_stride(pool: DecoderPool) -> None:
    """Where not every frame can be kept, the positions recorded are those taken, near the even spacing."""
    frames = 300
    data = samples.clip(samples.moving_square((96, 64), 0.25, 0.75, frames), "libx264", rate=25)
    recorded = made(await derived(pool, data, FRAMES))
    positions = recorded.transformation["positions"]
    ideal = FRAMES.positions(frames)
    assert all(abs(taken - wanted) <= 3 for taken, wanted in zip(positions, ideal, strict=True))
    expected = [0.25 + 0.5 * position / (frames - 1) for position in positions]
    assert red_centres(recorded.data) == pytest.approx(expected, abs=0.02)


async def test_the_same_video_gives_the_same_bytes(pool: DecoderPool) -> None:
    """A derivative can be made again: bytes and recipe are equal, and the recipe has a canonical form."""
    data = samples.mp4()
    first, second = [made(await derived(pool, data, FRAMES)) for _ in range(2)]
    assert first == second
    assert canonical_json(first.transformation) == canonical_json(second.transformation)
    assert "av " in first.transformation["tool"]
    assert "pillow " in first.transformation["tool"]


async def test_a_still_scene_keeps_its_frames(pool: DecoderPool) -> None:
    """Equal neighbours are not merged: the recorded number of frames is in the file, each with its delay."""
    derivative = made(await derived(pool, samples.clip([samples.picture((96, 64))] * 20), FRAMES))
    with Image.open(io.BytesIO(derivative.data)) as image:
        assert getattr(image, "n_frames", 1) == 8
        for index in range(8):
            image.seek(index)
            assert image.info["duration"] == 120


@pytest.mark.parametrize(
    ("size", "expected"),
    [((640, 360), (256, 144)), ((360, 640), (144, 256)), ((64, 64), (64, 56)), ((96, 64), (96, 64))],
)
async def test_the_result_fits_and_is_not_square(
    pool: DecoderPool, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    """The longer side is bounded, nothing is enlarged, and a square loses a little height."""
    derivative = made(await derived(pool, samples.mp4(size=size), FRAMES))
    assert (derivative.transformation["width"], derivative.transformation["height"]) == expected
    with Image.open(io.BytesIO(derivative.data)) as image:
        assert image.size == expected


@pytest.mark.parametrize(
    ("matrix", "orientation", "size", "moves"),
    [
        ((0, 1, -1, 0), 6, (64, 96), "down"),
        ((0, -1, 1, 0), 8, (64, 96), "up"),
        ((-1, 0, 0, -1), 3, (96, 64), "left"),
        ((-1, 0, 0, 1), 2, (96, 64), "left"),
        ((0, 1, 1, 0), 5, (64, 96), "down"),
    ],
)
async def test_a_video_is_seen_as_it_was_filmed(
    pool: DecoderPool, matrix: tuple[int, int, int, int], orientation: int, size: tuple[int, int], moves: str
) -> None:
    """A display matrix turns the frames before they are taken: a square that moves right on the sensor moves down."""
    inspection = await derived(pool, samples.turned(samples.mp4(), matrix), FRAMES)
    derivative = made(inspection)
    assert inspection.findings["orientation"] == derivative.transformation["orientation_applied"] == orientation
    with Image.open(io.BytesIO(derivative.data)) as image:
        assert image.size == size
    axis = 0 if moves in ("up", "down") else 1
    centres = red_centres(derivative.data, axis)
    grows = moves in ("down", "right")
    assert (centres[-1] > centres[0] + 0.3) if grows else (centres[-1] < centres[0] - 0.3)


async def test_a_matrix_that_is_no_quarter_turn_is_refused(pool: DecoderPool) -> None:
    """What cannot be shown exactly is not shown askew."""
    with pytest.raises(MediaRejected, match="video-orientation"):
        await derived(pool, samples.turned(samples.mp4(), (1, 1, -1, 1)), FRAMES)


async def test_a_derivative_is_not_derived_again(pool: DecoderPool) -> None:
    """A GIF that already is what the release needs passes unchanged, and so does our own result."""
    derivative = made(await derived(pool, samples.mp4(), FRAMES))
    again = await derived(pool, derivative.data, FRAMES)
    assert again.derivative is None
    assert again.findings["frames"] == 8


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(samples.animation("GIF", frames=12), id="too many frames"),
        pytest.param(samples.animation("GIF", delay_ms=50), id="another delay"),
        pytest.param(samples.animation("GIF", size=(400, 200)), id="too large"),
        pytest.param(samples.animation("GIF", size=(48, 48)), id="square"),
    ],
)
async def test_a_gif_that_does_not_fit_is_derived(pool: DecoderPool, data: bytes) -> None:
    """What passes unchanged is what the release needs in every respect."""
    inspection = await derived(pool, data, FRAMES)
    assert made(inspection).media_type == "image/gif"
    assert made(await derived(pool, data, FRAMES)).transformation["delay_ms"] == 120


async def test_a_recipe_of_another_kind_is_refused(pool: DecoderPool) -> None:
    """A recipe for videos says nothing about an image: nobody is left to believe that it was followed."""
    source = os.memfd_create("part")
    try:
        os.write(source, samples.encode(samples.picture(), "PNG"))
        with pytest.raises(InputError, match="derivation-modality"):
            await pool.inspect(source, modality=Modality.IMAGE, derive=FRAMES)
    finally:
        os.close(source)
