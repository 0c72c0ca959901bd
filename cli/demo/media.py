"""The demo's media, drawn from the calibration world and encoded in every accepted format; and broken ones.

Everything is made at start, so that nothing is vendored and every byte is explained by this file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av
import numpy as np
import soundfile
from PIL import Image

from serving.calibration.pictures import FRAME_MS, Clip, Picture
from serving.calibration.tones import RATE_HZ, Tone
from serving.calibration.world import HELD_OUT, Case, draw

_JPEG_QUALITY = 90
_CODECS = {"mp4": "libx264", "webm": "libvpx-vp9"}


@dataclass(frozen=True, slots=True)
class DrawnFile:
    """One file of the origin: its name and bytes."""

    name: str
    data: bytes


def case(task: str, index: int) -> Case:
    """A held-out case: the model never saw its like in training."""
    return draw(task, HELD_OUT + index)


def picture_file(name: str, picture: Picture) -> DrawnFile:
    """`picture` in the format of the name's suffix: png, jpg or webp."""
    suffix = name.rpartition(".")[2]
    out = io.BytesIO()
    if suffix == "jpg":
        picture.image.save(out, "JPEG", quality=_JPEG_QUALITY)
    else:
        picture.image.save(out, suffix.upper(), **({"lossless": True} if suffix == "webp" else {}))
    return DrawnFile(name, out.getvalue())


def tone_file(name: str, tone: Tone) -> DrawnFile:
    """`tone` in the format of the name's suffix: wav, flac or ogg (Vorbis)."""
    out = io.BytesIO()
    soundfile.write(out, tone.samples, RATE_HZ, format=name.rpartition(".")[2].upper())
    return DrawnFile(name, out.getvalue())


def clip_file(name: str, clip: Clip) -> DrawnFile:
    """`clip` as a video in the container of the name's suffix: mp4 (H.264) or webm (VP9)."""
    suffix = name.rpartition(".")[2]
    out = io.BytesIO()
    frames = [_even(frame) for frame in clip.frames]
    with av.open(out, "w", format=suffix) as container:
        stream = cast("av.VideoStream", container.add_stream(_CODECS[suffix], rate=Fraction(1000, FRAME_MS)))
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(frame), format="rgb24")))
        container.mux(stream.encode(None))
    return DrawnFile(name, out.getvalue())


def truncated(file: DrawnFile, name: str) -> DrawnFile:
    """The first half of `file`: a download that broke, or a disk that filled."""
    return DrawnFile(name, file.data[: len(file.data) // 2])


def disguised(name: str) -> DrawnFile:
    """A web page that calls itself a picture."""
    return DrawnFile(name, b"<!DOCTYPE html><html><body><img src='http://127.0.0.1/track'></body></html>")


def oversized(name: str, size_bytes: int) -> DrawnFile:
    """Pixels without end: a PNG longer than `size_bytes`."""
    side = int((size_bytes / 3) ** 0.5) + 64
    out = io.BytesIO()
    Image.effect_noise((side, side), 90).convert("RGB").save(out, "PNG", compress_level=0)
    return DrawnFile(name, out.getvalue())


def _even(image: Image.Image) -> Image.Image:
    """4:2:0 chroma needs even sides; one row or column less does not change which way the square moves."""
    width, height = image.size
    return image.crop((0, 0, width - width % 2, height - height % 2))
