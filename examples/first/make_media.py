"""Make the media of `bundle.yaml` beside it: two plain pictures and one second of a tone. The same bytes each time.

python examples/first/make_media.py [FOLDER]
"""

from __future__ import annotations

import math
import sys
import wave
from array import array
from pathlib import Path

from PIL import Image, ImageDraw

RED, BLUE = (215, 30, 30), (30, 60, 215)
LIGHT, SAND = (225, 225, 225), (235, 222, 190)
RATE_HZ, TONE_HZ, AMPLITUDE = 8_000, 220.0, 0.5  # telephone rate; an A below middle C: low


def circle() -> Image.Image:
    """A red circle on light grey, 320 x 240."""
    picture = Image.new("RGB", (320, 240), LIGHT)
    ImageDraw.Draw(picture).ellipse((80, 40, 240, 200), fill=RED)
    return picture


def square() -> Image.Image:
    """A blue square on sand, 240 x 240."""
    picture = Image.new("RGB", (240, 240), SAND)
    ImageDraw.Draw(picture).rectangle((50, 50, 190, 190), fill=BLUE)
    return picture


def tone() -> array[int]:
    """One second of a sine, 16-bit mono."""
    peak = AMPLITUDE * (2**15 - 1)
    return array("h", (round(peak * math.sin(math.tau * TONE_HZ * step / RATE_HZ)) for step in range(RATE_HZ)))


def make(folder: Path) -> None:
    """Write the three files into `folder`."""
    circle().save(folder / "circle.png")
    square().save(folder / "square.png")
    samples = tone()
    if sys.byteorder == "big":
        samples.byteswap()  # WAVE is little-endian
    with wave.open(str(folder / "tone.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(samples.itemsize)
        file.setframerate(RATE_HZ)
        file.writeframes(samples.tobytes())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
