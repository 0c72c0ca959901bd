"""What a release needs of a medium before its engine can take it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from contracts.errors import InputError


@dataclass(frozen=True, slots=True)
class Derivation:
    """Frames of a video, as an animation that the engine decodes itself. Applies to parts of kind video only.

    `frames` evenly spaced frames, first and last included (fewer when the video has fewer); `max_side_px` bounds
    the longer side, never enlarging; `frame_delay_ms` is between frames of the result, whatever the video's rate:
    engines write timestamps into the prompt, so it is part of what the model sees. `allow_square` false takes
    `SQUARE_TRIM_PX` off the height of a square result: at this release's frame budget the engine mistakes a frame
    that becomes one token for a placeholder.
    """

    frames: int = 8
    max_side_px: int = 256
    frame_delay_ms: int = 120
    container: str = "gif"
    allow_square: bool = False

    def __post_init__(self) -> None:
        if self.container != "gif":
            raise InputError("derivation-container", f"expected gif, got {self.container!r}")
        if not 1 <= self.frames <= MAX_FRAMES:
            raise InputError("derivation-frames", f"expected 1 to {MAX_FRAMES} frames, got {self.frames}")
        if not 16 <= self.max_side_px <= 4_096:
            raise InputError("derivation-side", f"expected 16 to 4096 px, got {self.max_side_px}")
        if self.frame_delay_ms % 10 or not 10 <= self.frame_delay_ms <= 10_000:
            raise InputError("derivation-delay", f"expected 10 to 10000 ms in tens, got {self.frame_delay_ms}")

    def to_json(self) -> dict[str, Any]:
        """The form that crosses to the decoder."""
        return asdict(self)

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """The size (width, height) in pixels of a result made from frames of `width` x `height`."""
        longer = max(width, height)
        if longer > self.max_side_px:
            width = max(1, (width * self.max_side_px + longer // 2) // longer)
            height = max(1, (height * self.max_side_px + longer // 2) // longer)
        if width == height and not self.allow_square:
            height = height - SQUARE_TRIM_PX if height > 2 * SQUARE_TRIM_PX else height + SQUARE_TRIM_PX
        return width, height

    def positions(self, available: int) -> tuple[int, ...]:
        """Which of `available` frames are taken: strictly rising indices, evenly spaced, ends included."""
        if available <= self.frames:
            return tuple(range(available))
        if self.frames == 1:
            return (available // 2,)
        steps = self.frames - 1
        return tuple((index * (available - 1) + steps // 2) // steps for index in range(self.frames))


MAX_FRAMES = 64
"""A GIF frame of 256 x 144 is some 20 KiB; more frames than this is another container's work."""

SQUARE_TRIM_PX = 8
"""3 % of 256 px: enough that no rounding makes it square again."""
