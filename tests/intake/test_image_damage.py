"""Ranges of coded data that are gone, zeroed or doubled: what is accepted is what an independent decoder makes of it.

Containers are mended around the damage. Of JPEG, whose decoders are two already, see test_jpeg_scans.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from tests.child_verdicts import verdict
from tests.coded_samples import heic
from tests.media_samples import encode, noise, picture
from tests.picture_parts import gif_blocks, gif_image, gif_image_data, png, png_chunks, riff_chunks, webp

SIZE = (64, 48)
Damage = Callable[[bytes], bytes]


def seen_by_pillow(data: bytes) -> list[Any]:
    """The frames as RGB, shape (height, width, 3). Whether a WebP is transparent is a matter of a hint."""
    with Image.open(io.BytesIO(data)) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


def seen_by_ffmpeg(data: bytes, form: str) -> list[Any]:
    """The same, by FFmpeg's own decoders, which repair nothing. Raises av.error.FFmpegError."""
    with av.open(io.BytesIO(data), "r", format=form) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.options = "NONE", {"err_detect": "explode+crccheck"}
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]


def in_gif(data: bytes, damage: Damage) -> bytes:
    """Damage to the last frame's codes."""
    blocks = list(gif_blocks(data))
    place = max(index for index, block in enumerate(blocks) if block[:1] == b",")
    head, coded = gif_image_data(blocks[place])
    blocks[place] = gif_image(head, damage(coded))
    return b"".join(blocks)


def in_png(data: bytes, damage: Damage) -> bytes:
    """Damage to the packed rows."""
    return png(*((kind, damage(body) if kind == b"IDAT" else body) for kind, body in png_chunks(data)))


def in_png_rows(data: bytes, damage: Damage) -> bytes:
    """Damage to the rows, packed properly."""
    return in_png(data, lambda packed: zlib.compress(damage(zlib.decompress(packed))))


def in_webp(data: bytes, damage: Damage) -> bytes:
    """Damage behind the header of the coded picture."""
    return webp(*((kind, body[:16] + damage(body[16:])) for kind, body in riff_chunks(data)))


FILES: dict[str, tuple[bytes, Callable[[bytes, Damage], bytes], str]] = {
    "gif": (encode(noise(SIZE), "GIF"), in_gif, "gif"),
    "plain gif": (encode(picture(SIZE), "GIF"), in_gif, "gif"),
    "png": (encode(noise(SIZE), "PNG"), in_png, "png_pipe"),
    "png rows": (encode(noise(SIZE), "PNG"), in_png_rows, "png_pipe"),
    "palette rows": (encode(picture(SIZE).quantize(64), "PNG"), in_png_rows, "png_pipe"),
    "webp": (encode(noise(SIZE), "WEBP", lossless=True), in_webp, "webp_pipe"),
    "plain webp": (encode(picture(SIZE), "WEBP", lossless=True), in_webp, "webp_pipe"),
}
HOW: dict[str, Callable[[bytes, int, int], bytes]] = {
    "gone": lambda data, begin, end: data[:begin] + data[end:],
    "zeroed": lambda data, begin, end: data[:begin] + bytes(end - begin) + data[end:],
    "doubled": lambda data, begin, end: data[:end] + data[begin:],
}


@given(
    name=st.sampled_from(sorted(FILES)),
    how=st.sampled_from(sorted(HOW)),
    place=st.floats(0, 1, exclude_max=True),
    part=st.floats(0, 0.5),
)
def test_what_is_accepted_decodes_elsewhere_to_the_same_pixels(name: str, how: str, place: float, part: float) -> None:
    """Else it is refused for what is missing of it, or for codes that are none."""
    data, into, form = FILES[name]

    def damage(coded: bytes) -> bytes:
        begin = int(place * len(coded))
        return HOW[how](coded, begin, min(begin + 1 + int(part * len(coded)), len(coded)))

    damaged = into(data, damage)
    said = verdict(damaged, "image")
    if "findings" not in said:
        assert said["rule"] in {"image-truncated", "image-undecodable"}
        return
    ours, theirs = seen_by_pillow(damaged), seen_by_ffmpeg(damaged, form)
    assert len(ours) == len(theirs) == said["findings"]["frames"]
    assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


WHOLE: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "png": ("PNG", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"], {}),
    "packed png": ("PNG", ["1", "L", "P", "RGB"], {"optimize": True, "compress_level": 9}),
    "stored png": ("PNG", ["1", "RGBA"], {"compress_level": 0}),
    "gif": ("GIF", ["1", "L", "P", "RGB", "RGBA"], {}),
    "gif in rows": ("GIF", ["1", "P", "RGB"], {"interlace": False}),
    "interlaced gif": ("GIF", ["1", "P", "RGB"], {"interlace": True}),
    "webp": ("WEBP", ["L", "RGB", "RGBA"], {"quality": 1, "method": 0}),
    "fine webp": ("WEBP", ["RGB", "RGBA"], {"quality": 100, "method": 6, "alpha_quality": 20}),
    "lossless webp": ("WEBP", ["RGB", "RGBA"], {"lossless": True, "exact": True}),
    "avif": ("AVIF", ["L", "RGB", "RGBA"], {"quality": 20, "speed": 10}),
    "tiled avif": ("AVIF", ["RGB"], {"tile_rows": 1, "tile_cols": 1, "speed": 10, "subsampling": "4:4:4"}),
}


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, (_, modes, _) in WHOLE.items() for mode in modes])
def test_what_is_whole_is_taken_however_it_is_coded(name: str, mode: str) -> None:
    """Every mode and option, sizes of no whole block, and where a form has animations two frames."""
    form, _, options = WHOLE[name]
    for size in ((64, 48), (1, 1), (9, 3)):
        one, other = (_in_mode(noise(size, seed), mode) for seed in (1, 2))
        assert verdict(encode(one, form, **options), "image")["findings"]["frames"] == 1
        if mode != "I;16":
            two = encode(one, form, save_all=True, append_images=[other], duration=100, **options)
            assert verdict(two, "image")["findings"]["frames"] == 2


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.asarray(image.convert("L"), np.uint16) * 257)
    return image.convert(mode)


@pytest.mark.parametrize("turns", range(4))
def test_a_whole_heic_is_taken_however_it_is_turned(turns: int) -> None:
    """Of noise, whose code fills its units."""
    assert verdict(heic(noise((160, 120)), quarter_turns=turns), "image")["findings"]["frames"] == 1
