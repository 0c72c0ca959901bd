"""A strict pool: each item has a confined decoder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from contracts.artifact import Modality
from contracts.derivation import FRAMES
from contracts.derivation_spec import parse_derivation
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests.command import eventually
from tests.media_samples import accepted, encode, picture

ITEMS = 12
RECIPES = {
    Modality.IMAGE: parse_derivation("image:max_side=64"),
    Modality.AUDIO: parse_derivation("audio:rate=8000"),
    Modality.VIDEO: FRAMES,
}


@pytest.fixture
def medium() -> Iterator[int]:
    """A descriptor of a small picture."""
    descriptor = os.memfd_create("medium", os.MFD_CLOEXEC)
    os.write(descriptor, encode(picture(), "PNG"))
    yield descriptor
    os.close(descriptor)


async def _seen(pool: DecoderPool, medium: int) -> set[int]:
    """All decoders that there ever were while some items were decoded."""
    seen = set[int]()
    for _ in range(ITEMS):
        seen |= await eventually(lambda: pool.pids, "the next decoder's hello")
        await pool.inspect(medium, modality=Modality.IMAGE)
    return seen


async def test_no_decoder_sees_two_items(medium: int) -> None:
    """As many decoders as items, at least; a pool that is not strict keeps the one it has."""
    async with DecoderPool(limits=Limits(), workers=1, strict=True) as pool:
        assert len(await _seen(pool, medium)) >= ITEMS
    async with DecoderPool(limits=Limits(), workers=1) as pool:
        assert len(await _seen(pool, medium)) == 1


async def test_a_verdict_is_the_same_from_either_pool() -> None:
    """Every accepted type and what is refused of it, with a derivative: artifact, findings, bytes, rule and reason."""
    files = [(Modality(kind.partition("/")[0]), data) for kind, data in accepted().values()]
    files += [(modality, data[: len(data) * 2 // 3]) for modality, data in files]
    async with (
        DecoderPool(limits=Limits(), workers=1, strict=True) as strict,
        DecoderPool(limits=Limits(), workers=1) as shared,
    ):
        for modality, data in files:
            assert await _verdict(strict, modality, data) == await _verdict(shared, modality, data)


async def _verdict(pool: DecoderPool, modality: Modality, data: bytes) -> tuple[object, ...]:
    descriptor = os.memfd_create("medium", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        found = await pool.inspect(descriptor, modality=modality, derive=RECIPES[modality])
    except MediaRejected as error:
        return error.rule, error.reason
    finally:
        os.close(descriptor)
    return found.artifact, found.findings, found.layers, found.derivative


async def test_decoders_come_from_one_process_that_outlives_them(medium: int) -> None:
    """What is replaced is a fork, also after a refusal; who forks stays, and ends with the pool."""
    broken = os.memfd_create("broken", os.MFD_CLOEXEC)
    os.write(broken, encode(picture(), "PNG")[:-30])
    async with DecoderPool(limits=Limits(), workers=1) as pool:
        first, zygote = pool.pids, pool.zygote_pids
        assert zygote
        with pytest.raises(MediaRejected):
            await pool.inspect(broken, modality=Modality.IMAGE)
        found = await pool.inspect(medium, modality=Modality.IMAGE)
        assert found.artifact.media_type == "image/png"
        assert not first & pool.pids
        assert pool.zygote_pids == zygote
    os.close(broken)
    assert pool.zygote_pids == frozenset()
