"""The point of a derivative: the engine, which cannot read MP4 or WebM, answers rightly about one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from contracts.artifact import Artifact, Modality
from contracts.derivation import FRAMES
from contracts.digest import Digest
from contracts.limits import Limits
from contracts.locator import Derived
from contracts.outcome import Outcome
from contracts.question import MediaPart, Question, TextPart
from intake.decoders import DecoderPool
from serving.calibration.pictures import Clip
from serving.calibration.world import HELD_OUT, draw
from serving.embedded_worker import EmbeddedWorker
from tests import media_samples as samples
from tests.engine_worker import ask
from tests.world import stage

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedWorker]:
    home = tmp_path_factory.mktemp("home")
    async with EmbeddedWorker(home, home / "staging") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


def even(image: Image.Image) -> Image.Image:
    """Video codecs want even sides."""
    return image.crop((0, 0, image.width // 2 * 2, image.height // 2 * 2))


async def derived_part(pool: DecoderPool, data: bytes, root: Path) -> MediaPart:
    """The derivative of a video, staged, as a part whose locator names the video and the recipe."""
    source = os.memfd_create("clip")
    try:
        os.write(source, data)
        inspection = await pool.inspect(source, modality=Modality.VIDEO, derive=FRAMES)
    finally:
        os.close(source)
    made = inspection.derivative
    assert made is not None
    artifact = Artifact(Digest.of(made.data), len(made.data), made.media_type, Modality.VIDEO)
    stage(root, artifact, made.data)
    return MediaPart(artifact, Derived(inspection.artifact.digest, made.transformation))


@pytest.mark.parametrize("codec", ["libx264", "libvpx", "libvpx-vp9"])
async def test_the_engine_answers_about_a_video_it_cannot_read(
    worker: EmbeddedWorker, pool: DecoderPool, codec: str
) -> None:
    """Eight clips a codec, at 25 frames a second: the direction is right and the answer complete."""
    for seed in range(8):
        case = draw("video", HELD_OUT + 60_000 + seed)
        (drawn,) = case.media
        assert isinstance(drawn, Clip)
        slow = [even(frame) for frame in drawn.frames for _ in range(3)]
        part = await derived_part(pool, samples.clip(slow, codec, rate=25), worker.staging_root)
        got = await ask(worker, Question((part, TextPart(case.question)), max_output_tokens=12))
        assert (got.outcome, got.text) == (Outcome.COMPLETE, case.answer), f"seed {seed}"
