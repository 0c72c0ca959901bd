"""Which frames of a video a derivative has: chosen in one pass, reduced at once, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy
from PIL import Image

from contracts.derivation import VideoDerivation
from contracts.errors import MediaRejected
from intake.children.video import Render

_KEPT_MAX = 128  # candidates held while the length of the video is unknown: 256 x 256 RGB each is 25 MB
_SCENE_SIDE_PX = 32  # what differs is the scene, not its grain
SCENE_FRAMES_MIN = 12
"""A scene has at least so many frames: a flash, which differs from both its neighbours, begins one, not two."""


class Selection(Protocol):
    """Is shown every frame of a video in order, and has those of the result at its end."""

    def take(self, index: int, begin: Fraction | None, render: Render, /) -> None:
        """Frame `index`, which begins `begin` seconds after the first; `render` is only called for one that counts.

        Raises MediaRejected `derivative-frames` or `derivative-times` when what was asked for cannot be had.
        """

    def chosen(self) -> list[tuple[int, Image.Image]]:
        """The frames of the result (RGB, one size) with their indices in the video, in order."""

    def facts(self) -> dict[str, Any]:
        """What else the transformation says."""


def selection(derivation: VideoDerivation) -> Selection:
    """What chooses frames as `derivation` asks."""
    kinds: dict[str, Callable[[VideoDerivation], Selection]] = {
        "even": EvenFrames,
        "every": EveryNth,
        "times": AtTimes,
        "scenes": SceneStarts,
    }
    return kinds[derivation.select](derivation)


class _Frames:
    """The frames taken so far, each at the size of the result."""

    def __init__(self, derivation: VideoDerivation) -> None:
        self._derivation = derivation
        self._size: tuple[int, int] | None = None
        self._taken: list[tuple[int, Image.Image]] = []

    def chosen(self) -> list[tuple[int, Image.Image]]:
        return self._taken

    def facts(self) -> dict[str, Any]:
        return {}

    def _add(self, index: int, image: Image.Image) -> None:
        if len(self._taken) >= self._derivation.frames:
            asked = f"expected at most {self._derivation.frames} frames by select {self._derivation.select}"
            raise MediaRejected("derivative-frames", f"{asked}, frame {index} would be one more")
        self._taken.append((index, self._reduced(image)))

    def _reduced(self, image: Image.Image) -> Image.Image:
        self._size = self._size or self._derivation.fitted(image.width, image.height)
        if image.size != self._size:
            halves = image.width >= 2 * self._size[0] and image.height >= 2 * self._size[1]
            image = image.resize(self._size, Image.Resampling.BOX if halves else Image.Resampling.BICUBIC)
        return image.convert("RGB")


class EvenFrames(_Frames):
    """Evenly spaced frames of a video whose length is not known until its end.

    Every `stride`-th frame is kept, reduced to the size of the result; when too many are, every other one is dropped
    and the stride doubles. Up to 128 frames that is every frame; beyond, a position is off by at most half a stride.
    """

    def __init__(self, derivation: VideoDerivation) -> None:
        super().__init__(derivation)
        self._kept: dict[int, Image.Image] = {}
        self._stride = 1
        self._seen = 0

    def take(self, index: int, _: Fraction | None, render: Render, /) -> None:
        """Keep every `stride`-th."""
        self._seen = index + 1
        if index % self._stride:
            return
        if len(self._kept) >= _KEPT_MAX:
            self._stride *= 2
            self._kept = {kept: image for kept, image in self._kept.items() if kept % self._stride == 0}
            if index % self._stride:
                return
        self._kept[index] = self._reduced(render())

    def chosen(self) -> list[tuple[int, Image.Image]]:
        candidates = sorted(self._kept)
        wanted = self._derivation.positions(self._seen)
        indices = sorted({min(candidates, key=lambda kept, at=at: (abs(kept - at), kept)) for at in wanted})  # type: ignore[misc]
        return [(index, self._kept[index]) for index in indices]


class EveryNth(_Frames):
    """The first frame and each n-th after it."""

    def take(self, index: int, _: Fraction | None, render: Render, /) -> None:
        """Take frames whose index is a multiple."""
        if index % (self._derivation.every or 1) == 0:
            self._add(index, render())


class AtTimes(_Frames):
    """For each time the first frame that begins then or later, as a player that seeks exactly shows it.

    Two times between which no frame begins have the same frame, twice.
    """

    def __init__(self, derivation: VideoDerivation) -> None:
        super().__init__(derivation)
        self._wanted = list(derivation.times_ms or ())
        self._begins: list[int] = []
        self._last = Fraction(0)

    def take(self, index: int, begin: Fraction | None, render: Render, /) -> None:
        """Take the frame for every time that is not later than its beginning."""
        if begin is None:
            raise MediaRejected("derivative-times", f"frame {index} does not say when it begins")
        self._last = max(self._last, begin)
        while self._wanted and begin * 1_000 >= self._wanted[0]:
            del self._wanted[0]
            self._add(index, render())
            self._begins.append(int(begin * 1_000))

    def chosen(self) -> list[tuple[int, Image.Image]]:
        if self._wanted:
            last = f"the last frame begins at {int(self._last * 1_000)} ms"
            raise MediaRejected("derivative-times", f"no frame begins at {self._wanted[0]} ms or later, {last}")
        return self._taken

    def facts(self) -> dict[str, Any]:
        """When the frames that were taken begin, in whole milliseconds."""
        return {"begins_ms": self._begins}


class SceneStarts(_Frames):
    """The first frame, and each that differs enough from the one before it: cuts, not fades.

    Compared are 32 x 32 pixels of RGB, each the mean of its area: the mean of the absolute differences, in levels of
    255.
    """

    def __init__(self, derivation: VideoDerivation) -> None:
        super().__init__(derivation)
        self._before: Any = None
        self._start = 0

    def take(self, index: int, _: Fraction | None, render: Render, /) -> None:
        """Compare with the frame before; a start is taken."""
        pixels = numpy.asarray(render(_SCENE_SIDE_PX)).astype(numpy.int32)
        if self._before is None or (self._differs(pixels) and index - self._start >= SCENE_FRAMES_MIN):
            self._start = index
            self._add(index, render())
        self._before = pixels

    def facts(self) -> dict[str, Any]:
        """The constants of the detector."""
        return {"scene_frames_min": SCENE_FRAMES_MIN, "scene_side_px": _SCENE_SIDE_PX}

    def _differs(self, pixels: Any) -> bool:
        differences, count = int(numpy.abs(pixels - self._before).sum()), int(pixels.size)
        return differences >= (self._derivation.scene_threshold or 0) * count
