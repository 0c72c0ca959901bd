"""Pictures and animations of which a part is missing, though every length and checksum is right."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest

from tests.child_verdicts import verdict
from tests.coded_samples import heic
from tests.media_samples import encode, noise, picture, png_chunk
from tests.picture_parts import gif_blocks, gif_image, gif_image_data, png, png_chunks, riff_chunks, webp

FRAMES = 5
SIZE = (64, 48)


def animated(form: str, **options: Any) -> bytes:
    """An animation of which no frame can be told from another's neighbour."""
    first, *others = (noise(SIZE, seed) for seed in range(FRAMES))
    out = io.BytesIO()
    first.save(out, form, save_all=True, append_images=others, duration=100, **options)
    return out.getvalue()


def apng_with_rows(number: int, rows: int) -> bytes:
    """An APNG whose picture `number` (from 0) is a proper stream of its first `rows` rows."""
    data, seen = animated("PNG"), -1
    out = data[:8]
    for kind, body in png_chunks(data):
        seen += kind in (b"IDAT", b"fdAT")
        if kind in (b"IDAT", b"fdAT") and seen == number:
            head = body[:4] if kind == b"fdAT" else b""
            pixels = zlib.decompress(body[len(head) :])
            body = head + zlib.compress(pixels[: rows * (1 + 3 * SIZE[0])])
        out += png_chunk(kind, body)
    return out


def test_whole_animations_are_taken_whole() -> None:
    """All frames of each form, as an image and where engines take it so as a video."""
    for data in (animated("GIF"), animated("PNG"), animated("WEBP"), animated("WEBP", lossless=True)):
        assert verdict(data, "image")["findings"]["frames"] == FRAMES
    assert verdict(animated("GIF"), "video")["findings"]["frames"] == FRAMES
    assert verdict(apng_with_rows(3, SIZE[1]), "image")["findings"]["frames"] == FRAMES


@pytest.mark.parametrize("number", range(FRAMES))
def test_each_picture_of_an_animated_png_has_all_its_rows(number: int) -> None:
    """Not only the first: Pillow takes zeros for the rows that are missing."""
    assert verdict(apng_with_rows(number, SIZE[1] - 1), "image")["rule"] == "image-truncated"


def test_no_picture_of_an_animated_png_is_left_out() -> None:
    """A header that claims fewer than there are hides the others."""
    data = animated("PNG")
    fewer = data[:8] + b"".join(
        png_chunk(kind, struct.pack(">II", 2, 0) if kind == b"acTL" else body) for kind, body in png_chunks(data)
    )
    assert verdict(fewer, "image")["rule"] == "image-truncated"


def test_a_default_picture_is_no_part_of_the_animation() -> None:
    """It has no control chunk of its own, and is decoded as well, so it stands for no other that is missing."""
    data = animated("PNG", default_image=True)
    assert verdict(data, "image")["findings"]["frames"] == FRAMES
    *chunks, _, end = png_chunks(data)
    assert verdict(png(*chunks, end), "image")["rule"] == "image-truncated"
    assert (
        verdict(png(*(each for each in png_chunks(data) if each[0] != b"IDAT")), "image")["rule"] == "image-truncated"
    )


def test_frames_that_no_header_announces_are_missed() -> None:
    """A PNG that lost the chunk which makes it an animation would be shown as its first frame."""
    without = png(*(each for each in png_chunks(animated("PNG")) if each[0] != b"acTL"))
    assert verdict(without, "image")["rule"] == "image-truncated"


def test_a_picture_of_palette_indices_has_a_palette_before_them() -> None:
    """Pillow takes indices for greys where there is none, or where it comes too late."""
    header, palette, *others = png_chunks(encode(noise(SIZE).quantize(200), "PNG"))
    assert palette[0] == b"PLTE"
    assert verdict(png(header, palette, *others), "image")["findings"]["mode"] == "P"
    for chunks in ([header, *others], [header, *others[:-1], palette, others[-1]]):
        assert verdict(png(*chunks), "image")["rule"] == "image-undecodable"


@pytest.mark.parametrize("which", [0, 2, 4])
@pytest.mark.parametrize("missing", [8, 2_000, 5_000])
def test_a_frame_of_a_gif_whose_data_ends_early_is_refused(which: int, missing: int) -> None:
    """Though its blocks are closed as they should be, and the next frame's bytes would do in place of the last ones."""
    blocks = list(gif_blocks(animated("GIF")))
    place = [index for index, block in enumerate(blocks) if block[:1] == b","][which]
    head, coded = gif_image_data(blocks[place])
    blocks[place] = gif_image(head, coded[: max(len(coded) - missing, 0)])
    assert verdict(b"".join(blocks), "image")["rule"] == "image-truncated"


def test_what_is_no_block_of_a_gif_is_refused_and_zeros_are_counted() -> None:
    """A descriptor that is overwritten would cost its frame, and Pillow looks for the next one in silence."""
    *blocks, last = gif_blocks(animated("GIF"))
    assert verdict(b"".join([*blocks, b"\0\0\0", last]), "image")["findings"]["skipped_bytes"] == 3
    place = next(index for index, block in enumerate(blocks) if block[:1] == b"," and index > 3)
    blocks[place] = b"\x2d" + blocks[place][1:]
    assert verdict(b"".join([*blocks, last]), "image")["rule"] == "image-undecodable"


@pytest.mark.parametrize("lossless", [False, True])
def test_a_frame_of_a_webp_whose_data_ends_early_is_refused(lossless: bool) -> None:
    """Of an animation and of a still, with every length mended."""
    chunks = list(riff_chunks(animated("WEBP", lossless=lossless)))
    kind, frame = chunks[-1]
    half = len(frame) // 2 & ~1
    cut = frame[:20] + struct.pack("<I", half - 24) + frame[24:half]
    assert verdict(webp(*chunks[:-1], (kind, cut)), "image")["rule"] == "image-truncated"
    [(kind, still)] = list(riff_chunks(encode(noise(SIZE), "WEBP", lossless=lossless)))
    assert verdict(webp((kind, still[: len(still) // 2])), "image")["rule"] == "image-truncated"


def test_what_a_webp_decoder_passes_over_is_counted() -> None:
    """A frame under a name that nobody knows is no frame to anybody."""
    *chunks, (_, frame) = riff_chunks(animated("WEBP"))
    found = verdict(webp(*chunks, (b"XXXX", frame)), "image")["findings"]
    assert (found["frames"], found["unknown_bytes"]) == (FRAMES - 1, 8 + len(frame) + len(frame) % 2)


def test_the_padding_of_a_jpeg_is_a_finding() -> None:
    """With what stands between its segments."""
    data = encode(noise(SIZE), "JPEG")
    quantisation = data.index(b"\xff\xdb")
    odd = data[:quantisation] + bytes(3) + data[quantisation:-2] + b"\x55" * 12 + data[-2:]
    assert 3 < verdict(odd, "image")["findings"]["skipped_bytes"] <= 15


@pytest.mark.parametrize("hole", [8, 300, 4_000])
def test_a_heic_with_a_hole_is_refused(hole: int) -> None:
    """Zeros where bytes were, in the middle or at the end, as a download leaves them that was given its room first."""
    data = heic(noise((160, 120)))
    assert verdict(data, "image")["findings"]["frames"] == 1
    for place in (len(data) - hole, len(data) - 6_000):
        assert verdict(data[:place] + bytes(hole) + data[place + hole :], "image")["rule"] == "image-undecodable"


def test_a_heic_whose_units_claim_more_than_their_item_has_is_refused() -> None:
    """With the lengths of its boxes mended, so that nothing else is wrong."""
    data = heic(noise((160, 120)))
    coded = len(data) - data.index(b"mdat") - 4
    mended = data[:-500].replace(struct.pack(">I4s", coded + 8, b"mdat"), struct.pack(">I4s", coded - 492, b"mdat"))
    mended = mended.replace(struct.pack(">I", coded), struct.pack(">I", coded - 500), 1)
    assert verdict(mended, "image")["rule"] == "image-truncated"


def test_a_thumbnail_that_is_damaged_costs_no_picture() -> None:
    """Nobody decodes it."""
    data = heic(picture(SIZE), exif=b"no unit of HEVC")
    damaged = data.replace(b"Exif\0", b"hvc1\0").replace(b"cdsc", b"thmb")
    assert damaged != data
    assert verdict(damaged, "image")["findings"]["frames"] == 1
    assert verdict(data.replace(b"Exif\0", b"hvc1\0"), "image")["rule"] == "image-truncated"


@pytest.mark.parametrize("form", ["still", "animation"])
def test_no_bit_of_what_makes_a_picture_is_changed(form: str) -> None:
    """In any chunk, be it in the checksum itself, which Pillow looks at in some."""
    data = animated("PNG") if form == "animation" else encode(noise(SIZE).quantize(16), "PNG")
    place = 8
    for kind, body in png_chunks(data):
        for offset in {place + 8, place + 8 + len(body) // 2, place + 8 + len(body) + 3}:
            changed = bytearray(data)
            changed[offset] ^= 0x10
            assert verdict(bytes(changed), "image").get("rule"), (kind, offset)
        place += 12 + len(body)
