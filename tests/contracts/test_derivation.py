"""Which frames a derivative takes, and their size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.derivation import FRAMES, VideoDerivation
from contracts.errors import InputError


def changed(**changes: Any) -> VideoDerivation:
    return msgspec.structs.replace(FRAMES, **changes)


@given(frames=st.integers(1, 64), available=st.integers(1, 20_000))
def test_positions_rise_and_span_the_video(frames: int, available: int) -> None:
    """Never more than asked for, never one twice, first and last included where there is room for both."""
    positions = changed(frames=frames).positions(available)
    assert len(positions) == min(frames, available)
    assert list(positions) == sorted(set(positions))
    assert 0 <= positions[0] <= positions[-1] < available
    if frames > 1:
        assert (positions[0], positions[-1]) == (0, available - 1)


@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000), side=st.integers(16, 4_096))
def test_a_result_fits_and_is_never_square(width: int, height: int, side: int) -> None:
    """The longer side stays in bounds and a square loses a little height, as the engine needs."""
    fitted = changed(max_side_px=side).fitted(width, height)
    assert min(fitted) >= 1
    assert max(fitted) <= max(side, 16 + 8)
    assert fitted[0] != fitted[1]


def test_fitting_twice_changes_nothing() -> None:
    """A derivative that is derived again keeps its size, so that it can be recognised as fitting."""
    derivation = FRAMES
    for size in ((1_920, 1_080), (1_080, 1_920), (500, 500), (64, 64), (96, 64)):
        once = derivation.fitted(*size)
        assert derivation.fitted(*once) == once


@pytest.mark.parametrize(
    ("field", "value"),
    [("frames", 0), ("frames", 65), ("max_side_px", 8), ("frame_delay_ms", 125), ("container", "mp4")],
)
def test_a_derivation_that_cannot_be_made_is_refused(field: str, value: Any) -> None:
    """Bounds of the recipe are checked when it is written, not when a video arrives."""
    with pytest.raises(InputError):
        changed(**{field: value})
