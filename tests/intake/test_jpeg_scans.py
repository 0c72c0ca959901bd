"""JPEGs whose coded data is not all there: Pillow takes them, we do not. What is whole is taken, however coded."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children.image import prepare
from intake.children.image_lengths import EOI, SOS, Segment, jpeg_segments
from intake.children.jpeg_scans import check_scans
from intake.children.source import Source
from tests.media_samples import encode, noise, picture

LIMITS = Limits()
CODED: dict[str, dict[str, Any]] = {
    "baseline": {"quality": 90},
    "coarse": {"quality": 5},
    "full chroma": {"subsampling": 0},
    "half chroma": {"subsampling": 1},
    "progressive": {"progressive": True},
    "own tables": {"optimize": True},
    "restarts": {"restart_marker_blocks": 3},
    "restarts by row": {"restart_marker_rows": 1, "progressive": True},
}
MODES = ["RGB", "L", "CMYK"]
END = b"\xff\xd9"


@contextmanager
def source_of(data: bytes) -> Iterator[Source]:
    """The bytes as a decoder sees them."""
    descriptor = os.memfd_create("jpeg")
    os.write(descriptor, data)
    try:
        yield Source(descriptor)
    finally:
        os.close(descriptor)


def sizes(data: bytes) -> list[tuple[int, int]]:
    """The sizes of the pictures, all of which were decoded."""
    found: list[tuple[int, int]] = []
    with source_of(data) as source:
        check_scans(source, found.append)
    return found


def rule(data: bytes) -> str:
    """The rule that refuses the bytes."""
    with pytest.raises(MediaRejected) as refused:
        sizes(data)
    return refused.value.rule


def scan(data: bytes) -> tuple[int, int]:
    """Where the longest scan begins and ends."""
    with source_of(data) as source:
        _, begin, end = max(jpeg_segments(source), key=lambda each: each.end - each.begin)
    return begin + 20, end


def coded(how: str, mode: str = "RGB", size: tuple[int, int] = (200, 152)) -> bytes:
    """A picture with detail everywhere."""
    return encode(noise(size).convert(mode), "JPEG", **CODED[how])


@pytest.mark.parametrize(
    ("how", "mode"), [(how, mode) for how in CODED for mode in MODES if (how, mode) != ("half chroma", "CMYK")]
)
def test_a_whole_picture_is_taken_however_it_is_coded(how: str, mode: str) -> None:
    """Every way of coding, every number of components, and sizes of no whole block."""
    for size in ((200, 152), (1, 1), (9, 3), (17, 64)):
        assert sizes(coded(how, mode, size)) == [size]


DAMAGE: dict[str, Callable[[bytes, int, int], bytes]] = {
    "all but the first half gone": lambda data, begin, end: data[: (begin + end) // 2] + END,
    "3 kB gone": lambda data, begin, _: data[: begin + 900] + data[begin + 3_900 :],
    "3 kB zeroed": lambda data, begin, _: data[: begin + 900] + bytes(3_000) + data[begin + 3_900 :],
    "the second half gone and a scan after it": lambda data, begin, end: data[: (begin + end) // 2] + data[end:],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("how", [how for how in CODED if how != "coarse"])
def test_blocks_that_are_missing_are_missed(how: str, damage: str) -> None:
    """Whether bytes are gone or zeros stand in their place, whatever follows them."""
    data = coded(how, size=(400, 304))
    damaged = DAMAGE[damage](data, *scan(data))
    assert rule(damaged) in {"image-truncated", "image-undecodable"}


RANGES: dict[str, Callable[[bytes, int, int], bytes]] = {
    "gone": lambda data, begin, end: data[:begin] + data[end:],
    "zeroed": lambda data, begin, end: data[:begin] + bytes(end - begin) + data[end:],
    "doubled": lambda data, begin, end: data[:end] + data[begin:],
}


@pytest.mark.parametrize("damage", RANGES)
@pytest.mark.parametrize("how", ["progressive", "restarts", "restarts by row"])
def test_half_a_kilobyte_of_damage_is_missed_wherever_it_is(how: str, damage: str) -> None:
    """Neither decoder alone misses all of it: libjpeg takes runs of blocks that lead out of their scan."""
    data = coded(how, size=(400, 304))
    begin, end = scan(data)
    for place in range(begin, end - 512, (end - begin) // 24):
        assert rule(RANGES[damage](data, place, place + 512)) in {"image-truncated", "image-undecodable"}


@given(st.floats(0, 0.99), st.sampled_from(sorted(CODED)))
def test_a_picture_cut_anywhere_and_ended_properly_is_refused(part: float, how: str) -> None:
    """By what is missing, wherever the cut is."""
    data = coded(how)
    begin, end = scan(data)
    cut = begin + int((end - begin) * part)
    assert rule(data[:cut].rstrip(b"\xff") + END) in {"image-truncated", "image-undecodable"}


def test_a_further_picture_is_looked_at_as_well() -> None:
    """Phones write more than one; each is admitted by its own size before it is decoded."""
    further = noise((96, 80))
    data = encode(picture((64, 48)), "MPO", save_all=True, append_images=[further])
    assert sizes(data) == [(64, 48), (96, 80)]
    begin = data.rindex(b"\xff\xd8\xff")
    assert rule(data[: begin + (len(data) - begin) // 2] + END) == "image-truncated"

    def small(size: tuple[int, int]) -> None:
        if size != (64, 48):
            raise MediaRejected("frame-pixels", "more")

    with source_of(data) as source, pytest.raises(MediaRejected, match="frame-pixels"):
        check_scans(source, small)


def scans(data: bytes) -> list[Segment]:
    """The scans of a picture, in order."""
    with source_of(data) as source:
        return [each for each in jpeg_segments(source) if each.marker == SOS]


@pytest.mark.parametrize("mode", MODES)
def test_a_progressive_picture_has_all_its_scans(mode: str) -> None:
    """Each refines what came before: where the last ones are cut off, or any one, a blurred picture would be shown."""
    data = coded("progressive", mode)
    assert sizes(data) == [(200, 152)]
    for each in scans(data)[:-1]:
        assert rule(data[: each.end] + END) == "image-truncated"
    for each in scans(data):
        assert rule(data[: each.begin] + data[each.end :]) in {"image-truncated", "image-undecodable"}


def in_scans_of_one(brought: list[int], named: bytes = b"\1\2\3") -> bytes:
    """A sequential picture of three components with a scan of its own for each that is `brought`, by place."""
    data = coded("baseline", "L")
    frame, last = data.index(b"\xff\xc0"), scans(data)[0]
    header = data[frame : frame + 10].replace(b"\x00\x0b", b"\x00\x11")[:-1] + b"\3"
    components = b"".join(bytes([name]) + b"\x11\0" for name in named)
    begin = data[:frame] + header + components + data[frame + 13 : last.begin]
    one = data[last.begin : last.end]
    return begin + b"".join(one[:5] + named[place : place + 1] + one[6:] for place in brought) + END


def test_a_picture_in_scans_of_one_component_has_one_of_each() -> None:
    """Else a colour would be missing, of which libjpeg does not warn."""
    assert sizes(in_scans_of_one([0, 1, 2])) == [(200, 152)]
    for some in ([0, 1], [0, 2], [1, 2], [0]):
        assert rule(in_scans_of_one(some)) == "image-truncated"
    assert rule(in_scans_of_one([0, 1, 2], named=b"\1\1\1")) == "image-truncated"


def test_a_few_bytes_of_padding_before_the_end_are_counted() -> None:
    """Cameras leave them; many are what damage leaves, and before a restart nobody can say where they begin."""
    for how in ("baseline", "restarts", "own tables"):
        data = coded(how)
        end = scans(data)[-1].end
        for count in (8, 16):
            with source_of(data[:end] + b"\x55" * count + data[end:]) as source:
                assert 0 < check_scans(source, lambda _: None) <= count
        assert rule(data[:end] + b"\x55" * 24 + data[end:]) == "image-undecodable"
    data = coded("restarts")
    begin, end = scan(data)
    restart = data.index(b"\xff\xd3", begin)
    assert rule(data[:restart] + b"\x55" * 9 + data[restart:]) == "image-undecodable"
    early = rule(data[:restart] + b"\x55" * 9 + END)
    assert early in {"image-truncated", "image-undecodable"}, "padding hides no end that comes too early"


def lossless(size: tuple[int, int] = (64, 64)) -> bytes:
    """A grey JPEG of process 14 (ISO/IEC 10918-1 §H), each sample as predicted."""
    frame = b"\xff\xc3\0\x0b\x08" + struct.pack(">HH", size[1], size[0]) + b"\1\1\x11\0"
    table = b"\xff\xc4\0\x14\0\1" + bytes(15) + b"\0"
    return b"\xff\xd8" + frame + table + b"\xff\xda\0\x08\1\1\0\1\0\0" + bytes(size[0] * size[1] // 8) + END


def test_a_lossless_picture_is_refused_before_it_is_decoded() -> None:
    """Reduced, it would be written beyond the buffer; and no engine reads it, though Pillow does."""
    prepare(LIMITS)
    with source_of(lossless()) as source, Image.open(source) as image:
        image.load()
    assert rule(lossless()) == "image-undecodable"


def test_odd_segments_are_no_damage() -> None:
    """An unknown JFIF revision, comments, and bytes between segments say nothing about blocks."""
    data = coded("baseline")
    odd = data.replace(b"JFIF\0\x01", b"JFIF\0\x09", 1)
    assert odd != data
    with source_of(data) as source:
        first = next(jpeg_segments(source))
    padded = odd[: first.end] + b"\0\0\0" + b"\xff\xfe\x00\x04hi" + odd[first.end :]
    assert sizes(padded) == [(200, 152)]


def test_what_cannot_be_checked_is_refused() -> None:
    """libjpeg-turbo's programming interface knows no four components of which two are half as wide."""
    assert rule(coded("half chroma", "CMYK")) == "image-undecodable"


def test_a_picture_of_two_components_is_refused() -> None:
    """No format that we know has them."""
    data = coded("baseline", "L")
    frame = data.index(b"\xff\xc0")
    two = data[:frame] + b"\xff\xc0\x00\x0e" + data[frame + 4 : frame + 9] + b"\x02" + data[frame + 10 : frame + 13]
    assert rule(two + b"\x02\x11\x00" + data[frame + 13 :]) == "image-undecodable"


def test_pillow_takes_what_we_refuse() -> None:
    """Else this check could go."""
    prepare(LIMITS)
    data = coded("baseline")
    begin, end = scan(data)
    with source_of(data[: (begin + end) // 2] + END) as source, Image.open(source) as image:
        image.load()
    assert EOI == 0xD9
