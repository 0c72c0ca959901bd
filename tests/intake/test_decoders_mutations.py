"""Damaged files: always a verdict, never a hang, a dead pool or a leaked descriptor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.artifact import Modality
from contracts.derivation import FRAMES
from contracts.derivation_spec import parse_derivation
from contracts.errors import ChildFailed, MediaRejected
from contracts.limits import Limits
from contracts.records import Inspection
from intake.decoders import DecoderPool
from tests import media_samples as samples

FILES = {name: (Modality(kind.partition("/")[0]), data) for name, (kind, data) in samples.accepted().items()}
FILES["animated webp"] = (Modality.IMAGE, samples.animation("WEBP"))
FILES["gif as video"] = (Modality.VIDEO, samples.animation("GIF"))

RECIPES = {
    Modality.IMAGE: parse_derivation("image:max_side=64"),
    Modality.AUDIO: parse_derivation("audio:rate=8000"),
    Modality.VIDEO: FRAMES,
}
"""Derived too: what a hostile file does to an encoder, a colour engine or a resampler is seen here."""


class Room:
    """A pool on a loop of its own, for tests whose generator is not asynchronous."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.pool = self.runner.run(self._open())

    async def _open(self) -> DecoderPool:
        pool = DecoderPool(limits=Limits(), workers=2, stderr=2)
        await pool.start()
        return pool

    def verdict(self, data: bytes, modality: Modality) -> Inspection | MediaRejected | ChildFailed:
        source = os.memfd_create("part")
        try:
            os.write(source, data)
            return self.runner.run(self.pool.inspect(source, modality=modality, derive=RECIPES[modality]))
        except (MediaRejected, ChildFailed) as error:
            return error
        finally:
            os.close(source)

    def close(self) -> None:
        self.runner.run(self.pool.close())
        self.runner.close()


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    opened = Room()
    yield opened
    opened.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(FILES)),
    places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=12),
    cut=st.one_of(st.just(1.0), st.floats(0.05, 1.0)),
)
def test_a_damaged_file_always_has_a_verdict(
    room: Room, name: str, places: list[tuple[float, int]], cut: float
) -> None:
    """Bytes changed and cut anywhere: accepted with findings or refused by a rule, and no decoder dies of it."""
    modality, data = FILES[name]
    damaged = bytearray(data)
    for place, value in places:
        damaged[int(place * len(damaged))] = value
    verdict = room.verdict(bytes(damaged[: max(1, int(len(damaged) * cut))]), modality)
    assert not isinstance(verdict, ChildFailed), verdict
    assert isinstance(verdict, Inspection) or verdict.rule


def test_the_pool_is_whole_after_all_that(room: Room) -> None:
    """After hundreds of damaged files an intact one is accepted, and the descriptors are those of the pool."""
    for name in FILES:
        modality, data = FILES[name]
        assert isinstance(room.verdict(data, modality), Inspection), name
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for cut in range(1, 41):
        room.verdict(FILES["png"][1][:cut], Modality.IMAGE)
    room.verdict(FILES["png"][1], Modality.IMAGE)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before + 2
