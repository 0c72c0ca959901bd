"""Exact frames of a video: by step, by time, by scene; what cannot be had exactly is refused."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from contracts.digest import Digest, canonical_json
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import media_samples as samples
from tests.deriving import bare, derived, made

pytestmark = pytest.mark.asyncio(loop_scope="module")

FRAMES = 30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


def marked(frames: int = FRAMES, rate: int = 10) -> bytes:
    """A video whose n-th frame is n steps brighter than black, so that a picture tells which frame it is."""
    return samples.clip([Image.new("RGB", (96, 64), (8 * n,) * 3) for n in range(frames)], rate=rate)


def which(gif: bytes) -> list[int]:
    """The numbers of the frames in a derivative of `marked`."""
    found = []
    with Image.open(io.BytesIO(gif)) as image:
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            found.append(round(float(np.asarray(image.convert("L")).mean()) / 8))
    return found


async def test_every_nth_frame_is_taken(pool: DecoderPool) -> None:
    """The first and each seventh after it: those recorded, and those in the file."""
    derivative = made(await derived(pool, marked(), "video:every=7"))
    said = derivative.transformation
    assert said["positions"] == which(derivative.data) == [0, 7, 14, 21, 28]
    assert (said["select"], said["every"], said["frames"]) == ("every", 7, 5)


async def test_frames_at_times_are_the_first_that_begin_then_or_later(pool: DecoderPool) -> None:
    """At 10 frames a second: on the dot, between two, and two times between the same two frames."""
    derivative = made(await derived(pool, marked(), "video:times=0;0.5;0.501;0.55;2.9"))
    assert derivative.transformation["positions"] == which(derivative.data) == [0, 5, 6, 6, 29]
    assert derivative.transformation["begins_ms"] == [0, 500, 600, 600, 2_900]
    assert derivative.transformation["times_ms"] == [0, 500, 501, 550, 2_900]


async def test_a_gif_has_times_too(pool: DecoderPool) -> None:
    """An animation's delays say when its frames begin."""
    derivative = made(await derived(pool, samples.animation("GIF", frames=6, delay_ms=200), "video:times=0.4;0.9"))
    assert derivative.transformation["positions"] == [2, 5]
    assert derivative.transformation["begins_ms"] == [400, 1_000]


async def test_a_time_behind_the_last_frame_is_refused(pool: DecoderPool) -> None:
    """No other frame is given for it; the reason says when the last one begins."""
    with pytest.raises(MediaRejected, match=r"derivative-times.*2901 ms.*2900 ms"):
        await derived(pool, marked(), "video:times=0.5;2.901")


@pytest.mark.parametrize("recipe", ["video:every=1,frames=29", "video:scenes=1,frames=2"])
async def test_more_frames_than_allowed_are_refused_not_thinned(pool: DecoderPool, recipe: str) -> None:
    """An exact selection is exact or not there."""
    with pytest.raises(MediaRejected, match="derivative-frames"):
        await derived(pool, marked(), recipe)


async def test_scenes_begin_at_cuts(pool: DecoderPool) -> None:
    """Three scenes with a moving square, cut at 20 and 45: these frames, and none for the motion within."""
    scenes = [
        samples.moving_square((96, 64), 0.3, 0.7, 20),
        [Image.new("RGB", (96, 64), (200, 220, 255)) for _ in range(25)],
        samples.moving_square((96, 64), 0.3, 0.7, 15, axis="y"),
    ]
    data = samples.clip([frame for scene in scenes for frame in scene], rate=25)
    derivative = made(await derived(pool, data, "video:scenes"))
    said = derivative.transformation
    assert said["positions"] == [0, 20, 45]
    assert (said["scene_threshold"], said["scene_frames_min"], said["frames"]) == (27, 12, 3)


async def test_a_flash_begins_one_scene_not_two(pool: DecoderPool) -> None:
    """One white frame differs from both its neighbours; a fade differs from none enough."""
    dark, white = Image.new("RGB", (96, 64), (10, 10, 10)), Image.new("RGB", (96, 64), (250, 250, 250))
    flash = samples.clip([dark] * 20 + [white] + [dark] * 20, rate=25, options=None)
    assert made(await derived(pool, flash, "video:scenes")).transformation["positions"] == [0, 20]
    assert made(await derived(pool, marked(), "video:scenes")).transformation["positions"] == [0]


async def test_a_comment_in_a_gif_is_reason_enough(pool: DecoderPool) -> None:
    """A GIF that fits in every other respect, but says something, is derived, and says it no more."""
    derivative = made(await derived(pool, marked(), "video"))
    end = derivative.data.rindex(b"\x3b")
    talking = derivative.data[:end] + b"\x21\xfe\x08a secret\x00\x3b"
    assert bare("image/gif", derivative.data)
    assert not bare("image/gif", talking)
    assert b"secret" not in made(await derived(pool, talking, "video")).data


async def test_two_pools_make_the_same_bytes() -> None:
    """Same input, same recipe: same file and same canonical transformation, in processes that never met."""
    for recipe in ("video:every=3", "video:times=0.3;1.2", "video:scenes=5,max_side=48"):
        results = []
        for _ in range(2):
            async with DecoderPool(limits=Limits(), workers=1, stderr=2) as fresh:
                results.append(made(await derived(fresh, marked(), recipe)))
        assert Digest.of(results[0].data) == Digest.of(results[1].data)
        assert canonical_json(results[0].transformation) == canonical_json(results[1].transformation)
