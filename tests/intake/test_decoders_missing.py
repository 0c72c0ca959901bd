"""Files whose container is whole and whose picture or sound is not: what decoders answer without an error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests import coded_samples
from tests import media_samples as samples

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADTS = coded_samples.sound_by_ffmpeg(samples.tone(), 16_000, "adts")
OPUS = samples.sound("opus", 5.0)
MKV = samples.clip(samples.moving_square((320, 240), 0.2, 0.8, 40), form="matroska")
LAST_FRAME = ADTS.rindex(ADTS[:3])
PAGES = [place for place in range(len(OPUS)) if OPUS.startswith(b"OggS", place)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


async def inspect(pool: DecoderPool, folder: Path, data: bytes, kind: Modality) -> Inspection:
    path = folder / "part"
    path.write_bytes(data)
    with path.open("rb") as source:
        return await pool.inspect(source.fileno(), modality=kind)


def flipped(data: bytes, place: int) -> bytes:
    """`data` with the byte at `place` inverted."""
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def without_page(number: int) -> bytes:
    """The recording without one of its pages."""
    return OPUS[: PAGES[number]] + OPUS[PAGES[number + 1] :]


def emptied(data: bytes, place: int, length: int) -> bytes:
    """`data` with zeros in the middle, as a disk loses a block."""
    return data[:place] + bytes(length) + data[place + length :]


MISSING = {
    "half a PNG's rows": (samples.png_claiming(50, 50, bytes(51) * 25), Modality.IMAGE, "image-truncated"),
    "an Ogg page": (without_page(3), Modality.AUDIO, "audio-truncated"),
    "a byte of an Ogg page": (flipped(OPUS, PAGES[3] + 100), Modality.AUDIO, "audio-undecodable"),
    "a block of a Matroska": (emptied(MKV, len(MKV) // 2, 150), Modality.VIDEO, "video-undecodable"),
    **{
        f"an ADTS frame but for {kept} bytes of its header": (
            ADTS[: LAST_FRAME + kept],
            Modality.AUDIO,
            "audio-truncated",
        )
        for kept in (1, 4, 6)
    },
}


@pytest.mark.parametrize("what", MISSING)
async def test_what_decoders_pass_over_is_refused(pool: DecoderPool, tmp_path: Path, what: str) -> None:
    """The container is whole or nearly so and the decoder says nothing, yet part of the medium is not there."""
    data, kind, rule = MISSING[what]
    with pytest.raises(MediaRejected) as refused:
        await inspect(pool, tmp_path, data, kind)
    assert refused.value.rule == rule


async def test_a_black_picture_is_whole(pool: DecoderPool, tmp_path: Path) -> None:
    """Rows of zeros that are there are no missing rows, also where a row has less than a byte."""
    bits = samples.encode(Image.new("1", (31, 17)), "PNG")
    for data in (bits, samples.encode(Image.new("RGBA", (300, 200)), "PNG")):
        assert (await inspect(pool, tmp_path, data, Modality.IMAGE)).findings["frames"] == 1


async def test_a_further_chain_of_an_ogg_is_behind_its_end(pool: DecoderPool, tmp_path: Path) -> None:
    """Only the first is decoded, so the second is counted with the bytes that nobody looked at."""
    found = (await inspect(pool, tmp_path, OPUS + OPUS, Modality.AUDIO)).findings
    assert found["trailing_bytes"] == len(OPUS)
