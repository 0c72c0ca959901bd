"""A strict pool: each item has a confined decoder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests.command import eventually
from tests.media_samples import encode, picture

ITEMS = 12


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
