"""The derivative of an image: upright, sRGB, 8 bits a channel, bounded, and nothing in the file but its pixels."""

from __future__ import annotations

import io
from importlib.metadata import version
from typing import Any

import numpy
from PIL import Image, ImageCms, features

from contracts.artifact import MediaType
from contracts.derivation import ImageDerivation
from contracts.digest import Digest
from contracts.limits import Limits
from intake.children import image as images
from intake.children.bare import is_bare
from intake.children.source import Source

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation (EXIF 2.32 §4.6.4 A) to the turn that makes it 1."""

_SPACES = {"RGB ": "RGB", "GRAY": "L", "CMYK": "CMYK"}
_LIBRARIES = {
    "png": ("zlib_ng" if features.version("zlib_ng") else "zlib",),
    "jpeg": ("libjpeg_turbo",),
    "webp": ("webp",),
}
_WORDS = {
    "zlib": "zlib",
    "zlib_ng": "zlib-ng",
    "libjpeg_turbo": "libjpeg-turbo",
    "webp": "libwebp",
    "littlecms2": "littlecms",
}
TOOLS = {
    form: ", ".join(
        [f"pillow {version('pillow')}"]
        + [f"{_WORDS[name]} {features.version(name)}" for name in (*libraries, "littlecms2")]
    )
    for form, libraries in _LIBRARIES.items()
}
_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))


def prepare() -> None:
    """Warm the encoders and the colour engine. Call once, before the confinement."""
    for form, quality in (("png", None), ("jpeg", 90), ("webp", 90), ("webp", None)):
        _encode(Image.new("RGB", (8, 8)), form, quality)
    _converted(Image.new("RGB", (8, 8)), _SRGB.tobytes())


def fits_already(findings: dict[str, Any], source: Source, media_type: MediaType, derivation: ImageDerivation) -> bool:
    """Whether an image is already what the derivation would make of it. How lossy its encoder was is not asked."""
    size = (findings["width"], findings["height"])
    modes = ("RGB", "RGBA") if derivation.alpha == "keep" else ("RGB",)
    return (
        media_type.name == derivation.media_type
        and findings["frames"] == 1
        and findings["mode"] in modes
        and derivation.fitted(*size) == size
        and is_bare(media_type.name, source)
    )


def image_normalised(
    source: Source, media_type: MediaType, limits: Limits, derivation: ImageDerivation, orientation: int
) -> tuple[bytes, dict[str, Any]]:
    """The file and its transformation. `orientation` is what the original's EXIF says, 1 to 8.

    Reduced first, then turned and converted: that is the least work. Raises MediaRejected as decoding does.
    """
    opened = images.frames(source, media_type, limits)  # the picture is its, until it goes
    first = next(opened)
    profile = first.info.get("icc_profile")
    picture = _with_whole_alpha(first)
    size = derivation.fitted(*picture.size)
    if picture.size != size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    if picture is first:
        picture = first.copy()
    if orientation in _TURNS:
        picture = picture.transpose(_TURNS[orientation])
    picture, colour = _in_srgb(picture, profile)
    picture = _flattened(picture, derivation.background)
    transformation = {
        **derivation.fixed(),
        **colour,
        "width": picture.width,
        "height": picture.height,
        "mode": picture.mode,
        "orientation_applied": orientation,
        "tool": TOOLS[derivation.format],
    }
    return _encode(picture, derivation.format, derivation.quality), transformation


def _with_whole_alpha(image: Image.Image) -> Image.Image:
    """8 bits a channel, no palette, and transparency as a channel: what can be resized."""
    if image.mode.startswith("I"):  # 16 bits of grey
        grey = numpy.clip(numpy.asarray(image), 0, 65_535).astype(numpy.uint16)
        return Image.fromarray((grey >> 8).astype(numpy.uint8))
    if image.has_transparency_data:
        return image if image.mode in ("RGBA", "LA") else image.convert("RGBA")
    return image if image.mode in ("L", "RGB", "CMYK") else image.convert("RGB")


def _in_srgb(picture: Image.Image, profile: Any) -> tuple[Image.Image, dict[str, Any]]:
    """RGB or RGBA in sRGB, and how it came there. What has no profile, or none that can be used, is taken as sRGB."""
    alpha = picture.getchannel("A") if picture.mode in ("RGBA", "LA") else None
    opaque = picture if alpha is None else picture.convert(picture.mode[:-1])
    colour: dict[str, Any] = {"colour": "taken-as-srgb"}
    converted = None
    if isinstance(profile, bytes) and profile:
        converted = _converted(opaque, profile)
        how = "profile-unusable" if converted is None else "profile-to-srgb"
        colour = {"colour": how, "profile": str(Digest.of(profile))}
    result = opaque.convert("RGB") if converted is None else converted
    if alpha is not None:
        result.putalpha(alpha)
    return result, colour


def _converted(picture: Image.Image, profile: bytes) -> Image.Image | None:
    """Relative colorimetric, by littlecms; None where the profile cannot be read or is of another kind of colour."""
    try:
        read = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if _SPACES.get(read.profile.xcolor_space) != picture.mode:
            return None
        intent = ImageCms.Intent.RELATIVE_COLORIMETRIC
        return ImageCms.profileToProfile(picture, read, _SRGB, renderingIntent=intent, outputMode="RGB")
    except (MemoryError, ImportError):
        raise
    except Exception:  # littlecms says no in whatever way Pillow has for it
        return None


def _flattened(picture: Image.Image, background: str | None) -> Image.Image:
    if picture.mode == "RGB" or background is None:
        return picture
    under = Image.new("RGB", picture.size, f"#{background}")
    under.paste(picture, mask=picture.getchannel("A"))
    return under


def _encode(picture: Image.Image, form: str, quality: int | None) -> bytes:
    """The pixels as a file, from an image that has nothing else: encoders write what they find in `info`."""
    picture.info.clear()
    out = io.BytesIO()
    if form == "png":
        picture.save(out, "PNG", compress_level=6)
    elif form == "jpeg":
        picture.save(out, "JPEG", quality=quality, subsampling=0)
    elif quality is None:
        picture.save(out, "WEBP", lossless=True, quality=75, method=4, exact=True)
    else:
        picture.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()
