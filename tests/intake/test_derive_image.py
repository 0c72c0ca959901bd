"""An image as a release needs it: upright, sRGB, bounded, and nothing in the file but its pixels."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, PngImagePlugin

from contracts.digest import Digest, canonical_json
from contracts.limits import Limits
from intake.decoders import DecoderPool
from tests import coded_samples
from tests import media_samples as samples
from tests.deriving import bare, derived, made, opened, swapped_profile

pytestmark = pytest.mark.asyncio(loop_scope="module")

CORNERS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0))
TURNED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""What a camera did to the scene when it wrote each orientation."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecoderPool]:
    async with DecoderPool(limits=Limits(), workers=1, stderr=2) as decoders:
        yield decoders


def quarters(size: tuple[int, int] = (40, 24)) -> Image.Image:
    """Four colours, one in each corner."""
    image = Image.new("RGB", (2, 2))
    image.putdata(CORNERS)
    return image.resize(size, Image.Resampling.NEAREST)


def burdened(form: str, image: Image.Image | None = None) -> bytes:
    """A file with all that people leave in one: EXIF with a place, a colour profile, a comment."""
    exif = Image.Exif()
    exif[0x0110] = "camera of a certain person"
    exif.get_ifd(0x8825)[1] = "N"
    exif.get_ifd(0x8825)[2] = (48.0, 8.0, 0.0)
    options: dict[str, Any] = {"exif": exif, "icc_profile": swapped_profile()}
    if form == "PNG":
        options["pnginfo"] = PngImagePlugin.PngInfo()
        options["pnginfo"].add_text("Comment", "a secret")
    if form == "JPEG":
        options |= {"comment": b"a secret", "quality": 95}
    if form == "WEBP":
        options |= {"xmp": b"<x:xmpmeta>a secret</x:xmpmeta>", "lossless": True}
    return samples.encode(image or quarters(), form, **options)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize(("wanted", "name"), [("png", "PNG"), ("jpeg", "JPEG"), ("webp", "WEBP")])
async def test_nothing_but_pixels_is_left(pool: DecoderPool, form: str, wanted: str, name: str) -> None:
    """EXIF, place, comment and profile are gone, in every pair of formats; the file is what it says it is."""
    data = burdened(form)
    assert not bare(f"image/{form.lower()}", data)
    derivative = made(await derived(pool, data, f"image:format={wanted}"))
    assert derivative.media_type == f"image/{wanted}"
    assert bare(derivative.media_type, derivative.data)
    with Image.open(io.BytesIO(derivative.data)) as image:
        assert (image.format, image.mode, image.size) == (name, "RGB", (40, 24))
        assert not image.getexif()
        assert "icc_profile" not in image.info
    for secret in (b"secret", b"certain person", b"ICC_PROFILE"):
        assert secret not in derivative.data


@pytest.mark.parametrize("orientation", range(1, 9))
async def test_a_picture_stands_upright(pool: DecoderPool, orientation: int) -> None:
    """Each of the eight EXIF orientations gives the scene as it was, pixel for pixel."""
    scene, exif = quarters(), Image.Exif()
    exif[0x0112] = orientation
    stored = scene.transpose(TURNED[orientation]) if orientation > 1 else scene
    inspection = await derived(pool, samples.encode(stored, "PNG", exif=exif), "image")
    derivative = made(inspection)
    assert np.array_equal(np.asarray(opened(derivative)), np.asarray(scene))
    assert derivative.transformation["orientation_applied"] == orientation


async def test_the_longer_side_is_bounded_after_turning(pool: DecoderPool) -> None:
    """A portrait that was stored as landscape is bounded by its height, and nothing is enlarged."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = samples.encode(samples.picture((1_200, 800)), "JPEG", exif=exif)
    derivative = made(await derived(pool, data, "image:max_side=300"))
    assert opened(derivative).size == (200, 300)
    assert (derivative.transformation["width"], derivative.transformation["height"]) == (200, 300)
    small = made(await derived(pool, samples.encode(samples.picture((30, 20)), "JPEG"), "image:max_side=300"))
    assert opened(small).size == (30, 20)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
async def test_a_colour_profile_is_applied(pool: DecoderPool, form: str) -> None:
    """Red in a profile that shows red as green is green in sRGB, and the recipe names the profile."""
    derivative = made(await derived(pool, burdened(form, Image.new("RGB", (32, 32), (255, 0, 0))), "image"))
    red, green, blue = opened(derivative).getpixel((16, 16))  # type: ignore[misc]
    assert (red < 40, green > 215, blue < 40) == (True, True, True)
    assert derivative.transformation["colour"] == "profile-to-srgb"
    assert derivative.transformation["profile"] == str(Digest.of(swapped_profile()))


@pytest.mark.parametrize(
    ("profile", "colour"), [(b"junk" * 64, "profile-unusable"), (swapped_profile()[:300], "profile-unusable")]
)
async def test_a_profile_that_cannot_be_used_is_dropped_and_said(
    pool: DecoderPool, profile: bytes, colour: str
) -> None:
    """Pixels stay as they are, and the recipe says that they were taken for sRGB against a profile."""
    data = samples.encode(quarters(), "PNG", icc_profile=profile)
    derivative = made(await derived(pool, data, "image"))
    assert np.array_equal(np.asarray(opened(derivative)), np.asarray(quarters()))
    assert (derivative.transformation["colour"], derivative.transformation["profile"]) == (
        colour,
        str(Digest.of(profile)),
    )


async def test_a_profile_of_another_kind_of_colour_is_not_applied(pool: DecoderPool) -> None:
    """A profile for RGB says nothing about grey."""
    grey = Image.new("L", (16, 16), 90)
    derivative = made(await derived(pool, samples.encode(grey, "PNG", icc_profile=swapped_profile()), "image"))
    assert opened(derivative).getpixel((3, 3)) == (90, 90, 90)
    assert derivative.transformation["colour"] == "profile-unusable"


async def test_alpha_is_flattened_or_kept(pool: DecoderPool) -> None:
    """On the background that was asked for, or as it is."""
    image = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
    data = samples.encode(image, "PNG", exif=Image.Exif())
    flat = opened(made(await derived(pool, data, "image:format=webp,background=00ff00")))
    assert (flat.mode, flat.getpixel((8, 8))) == ("RGB", (0, 255, 0))
    half = samples.encode(Image.new("RGBA", (16, 16), (255, 0, 0, 128)), "PNG")
    over_white = opened(made(await derived(pool, half, "image"))).getpixel((8, 8))
    assert over_white == (255, 127, 127)
    for form in ("png", "webp"):
        kept = opened(made(await derived(pool, samples.encode(image, "GIF"), f"image:alpha=keep,format={form}")))
        assert (kept.mode, kept.getpixel((8, 8))[3]) == ("RGBA", 0)  # type: ignore[index]


@pytest.mark.parametrize(
    ("image", "form", "pixel"),
    [
        pytest.param(Image.new("1", (16, 16), 1), "PNG", (255, 255, 255), id="one bit"),
        pytest.param(Image.new("L", (16, 16), 77), "JPEG", (77, 77, 77), id="grey"),
        pytest.param(Image.new("I;16", (16, 16), 0x8040), "PNG", (128, 128, 128), id="16 bits of grey"),
        pytest.param(Image.new("LA", (16, 16), (50, 255)), "PNG", (50, 50, 50), id="grey with alpha"),
        pytest.param(Image.new("RGB", (16, 16), (9, 99, 199)).quantize(4), "PNG", (9, 99, 199), id="palette"),
        pytest.param(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG", (0, 255, 255), id="cmyk"),
    ],
)
async def test_every_kind_of_pixel_becomes_rgb(
    pool: DecoderPool, image: Image.Image, form: str, pixel: tuple[int, int, int]
) -> None:
    """8 bits a channel, in three channels, with the colours that were there."""
    result = opened(made(await derived(pool, samples.encode(image, form), "image:max_side=16")))
    assert result.mode == "RGB"
    assert result.getpixel((8, 8)) == pytest.approx(pixel, abs=2)


async def test_what_no_engine_reads_becomes_what_engines_read(pool: DecoderPool) -> None:
    """HEIC and AVIF, as phones and the web have them."""
    for data in (coded_samples.heic(samples.picture((96, 64))), samples.encode(samples.picture((96, 64)), "AVIF")):
        image = opened(made(await derived(pool, data, "image:format=jpeg,quality=95")))
        assert (image.format, image.size) == ("JPEG", (96, 64))
        assert image.getpixel((32, 32)) == pytest.approx(samples.RED, abs=24)


async def test_of_an_animation_the_first_frame_is_taken(pool: DecoderPool) -> None:
    """As engines do; all its frames were decoded before."""
    for form in ("GIF", "PNG", "WEBP"):
        inspection = await derived(pool, samples.animation(form, frames=3), "image:format=png")
        assert inspection.findings["frames"] == 3
        assert getattr(opened(made(inspection)), "n_frames", 1) == 1


@pytest.mark.parametrize("recipe", ["image:format=png", "image:format=webp,alpha=keep", "image:format=jpeg"])
async def test_what_is_normal_already_is_not_derived(pool: DecoderPool, recipe: str) -> None:
    """Neither our own result nor a file that has nothing to lose, in size, orientation, colour or metadata."""
    derivative = made(await derived(pool, burdened("PNG"), recipe))
    assert (await derived(pool, derivative.data, recipe)).derivative is None
    other = {"image/png": "image:format=jpeg"}.get(derivative.media_type, "image:format=png")
    assert (await derived(pool, derivative.data, other)).derivative is not None
    assert (await derived(pool, derivative.data, recipe + ",max_side=20")).derivative is not None


async def test_a_tail_behind_a_picture_is_no_normal_picture(pool: DecoderPool) -> None:
    """Bytes behind the end reach no worker that was to have a normalised image."""
    for form, recipe in (("PNG", "image:format=png"), ("JPEG", "image:format=jpeg")):
        plain = samples.encode(quarters(), form)
        assert (await derived(pool, plain, recipe)).derivative is None
        assert made(await derived(pool, plain + b"tail", recipe)).data[-4:] != b"tail"


async def test_two_pools_make_the_same_bytes() -> None:
    """Same input, same recipe: same file and same canonical transformation, in processes that never met."""
    data = burdened("JPEG", samples.noise((300, 200)))
    for recipe in ("image:max_side=100", "image:format=jpeg,max_side=99", "image:format=webp,quality=80"):
        results = []
        for _ in range(2):
            async with DecoderPool(limits=Limits(), workers=1, stderr=2) as fresh:
                results.append(made(await derived(fresh, data, recipe)))
        assert Digest.of(results[0].data) == Digest.of(results[1].data)
        assert canonical_json(results[0].transformation) == canonical_json(results[1].transformation)
        assert "pillow " in results[0].transformation["tool"]
