"""Images, decoded to the last pixel of the last frame, within bounds that are checked frame by frame."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from PIL import (
    AvifImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from contracts.artifact import MediaType
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import heif, image_lengths, jpeg_scans, png_rows
from intake.children.claims import exif_claims, profile_claims
from intake.children.source import Source

_FORMATS = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG with more pictures behind the first, as phones write
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}
_OPENED = ("PNG", "JPEG", "WEBP", "GIF", "AVIF")
_PLUGINS = (
    AvifImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
"""Imported before the confinement, as a confined Pillow can import nothing (TIFF is the form of EXIF data)."""

_EXIF_ORIENTATION = 0x0112
_FIRST_SIDEWAYS = 5  # EXIF orientations 5 to 8 exchange width and height
_NAMES = {"image/heic": "heic"}


def prepare(limits: Limits) -> None:
    """Set Pillow's own bounds and warm what it imports on first use. Call once, before the confinement."""
    Image.preinit()
    Image._initialized = 2  # no other plugin is ever loaded
    Image.MAX_IMAGE_PIXELS = limits.frame_pixels
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    warnings.simplefilter("ignore")  # printing one opens source files
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    heif.prepare()
    jpeg_scans.prepare()
    for form in _OPENED:
        out, exif = io.BytesIO(), Image.Exif()
        exif[_EXIF_ORIENTATION] = 1
        Image.new("RGB", (8, 8)).save(out, form, **({} if form == "GIF" else {"exif": exif}))
        with Image.open(io.BytesIO(out.getvalue()), formats=[form]) as image:
            image.load()
            exif_claims(image)


def decode_image(source: Source, media_type: MediaType, limits: Limits) -> dict[str, Any]:
    """Findings of an image: format, width, height, mode, frames, and what else it says about itself.

    An animation is accepted as an image, all its frames decoded and counted. Raises MediaRejected: `frame-pixels`,
    `frame-side`, `animation-pixels`, `image-truncated`, `image-undecodable`, `type-disagreement`.
    """
    findings: dict[str, Any] = {}
    duration = count = padding = 0
    if media_type.name == "image/jpeg":
        with _refusals(source, budget := _Budget(limits, None)):
            padding = jpeg_scans.check_scans(source, budget.take)
    for count, frame in enumerate(frames(source, media_type, limits, pixels=False), 1):
        duration += delay_ms(frame)
        if count == 1:
            findings = _describe(frame, media_type)
    findings["frames"] = count
    if count > 1:
        findings["duration_ms"] = duration
    if padding:
        findings["skipped_bytes"] = padding
    return findings


def frames(
    source: Source, media_type: MediaType, limits: Limits, max_frames: int | None = None, *, pixels: bool = True
) -> Iterator[Image.Image]:
    """Every frame, decoded, each valid until the next is asked for; without `pixels` where they need not be looked at.

    Raises as `decode_image`, and `video-frames`; but of the blocks of a JPEG only `decode_image` misses any.
    """
    budget = _Budget(limits, max_frames)
    with _refusals(source, budget):
        source.seek(0)
        if media_type.name in heif.MEDIA_TYPES:
            yield from _heif_frames(source, budget)
        else:
            yield from _pillow_frames(source, media_type, budget, pixels=pixels or media_type.name != "image/jpeg")


@contextmanager
def _refusals(source: Source, budget: _Budget) -> Iterator[None]:
    """Whatever a decoder raises within, as a MediaRejected that says where."""
    try:
        yield
    except (MediaRejected, MemoryError, ImportError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        reason = f"the header claims more than {budget.limits.frame_pixels} pixels"
        raise MediaRejected("frame-pixels", reason) from error
    except Exception as error:
        raise _broken(error, source, budget.frames) from error


class _Budget:
    """What has been decoded so far, against the bounds. A single frame has the bound of a frame only."""

    def __init__(self, limits: Limits, max_frames: int | None) -> None:
        self.limits = limits
        self._max_frames = max_frames
        self._pixels = 0
        self.frames = 0

    def admit(self, size: tuple[int, int]) -> None:
        """Raises MediaRejected when a frame of `size` (width, height), which is decoded next, is beyond a bound."""
        _check_size(size, self.limits)
        self._pixels += size[0] * size[1]
        if self.frames and self._pixels > self.limits.animation_pixels:
            raise MediaRejected(
                "animation-pixels",
                f"frame {self.frames + 1}: {self._pixels} pixels, the bound is {self.limits.animation_pixels}",
            )
        if self._max_frames is not None and self.frames >= self._max_frames:
            raise MediaRejected("video-frames", f"more than {self._max_frames} frames")

    def take(self, size: tuple[int, int]) -> None:
        """Admit a frame, and count it."""
        self.admit(size)
        self.frames += 1


def _pillow_frames(source: Source, media_type: MediaType, budget: _Budget, *, pixels: bool) -> Iterator[Image.Image]:
    with Image.open(source, formats=_OPENED) as image:
        _check_format(image, media_type)
        while True:
            budget.admit(image.size)
            if pixels:
                _load(image, source)
            if budget.frames == 0 and media_type.name == "image/png":
                png_rows.check_rows(source, image)
            yield image
            budget.frames += 1
            if not _next(image, budget.frames):
                break
    if budget.frames > 1 and media_type.name == "image/png":
        png_rows.check_animation(source)


def _load(image: ImageFile.ImageFile, source: Source) -> None:
    if image.format == "GIF" and image.tile:  # else Pillow reads on, behind a frame that ends early, into the next one
        image.fp = source.until(image_lengths.gif_data_end(source, image.tile[0].offset))
    image.load()


def _heif_frames(source: Source, budget: _Budget) -> Iterator[Image.Image]:
    """Every picture of the file, the primary one first."""
    pictures = heif.Pictures(source)
    decoded = iter(pictures)
    for size in pictures.sizes:
        budget.admit(size)
        yield next(decoded)
        budget.frames += 1


def delay_ms(frame: Image.Image) -> int:
    """How long an animation shows `frame`, in whole milliseconds; 0 when it does not say."""
    value = frame.info.get("duration", 0)
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0


def _next(image: Image.Image, count: int) -> bool:
    if not getattr(image, "is_animated", False):
        return False
    try:
        image.seek(count)
    except EOFError:
        return False
    return True


def _check_format(image: Image.Image, media_type: MediaType) -> None:
    said = _FORMATS.get(image.format or "")
    if said != media_type.name:
        raise MediaRejected("type-disagreement", f"sniffed {media_type.name}, the decoder says {said}")


def _check_size(size: tuple[int, int], limits: Limits) -> None:
    width, height = size
    if max(width, height) > limits.frame_side_px:
        raise MediaRejected("frame-side", f"{width} x {height}, the longest side allowed is {limits.frame_side_px}")
    if width * height > limits.frame_pixels:
        raise MediaRejected("frame-pixels", f"{width} x {height}, the bound is {limits.frame_pixels} pixels")


def _describe(image: Image.Image, media_type: MediaType) -> dict[str, Any]:
    found: dict[str, Any] = {
        "format": _NAMES.get(media_type.name, (image.format or "").lower()),
        "width": image.width,
        "height": image.height,
        "mode": image.mode,
        **exif_claims(image),
        **profile_claims(image.info.get("icc_profile")),
    }
    if media_type.name in heif.MEDIA_TYPES:
        found.pop("orientation", None)  # ISO/IEC 23008-12 §A.2.1: the file's own rotation holds, and it is applied
    if (turned := found.get("orientation", 1)) != 1:
        found["shown_width"], found["shown_height"] = image.size if turned < _FIRST_SIDEWAYS else image.size[::-1]
    return found


def _broken(error: Exception, source: Source, count: int) -> MediaRejected:
    place = 0 if source.closed else source.tell()
    if "MAX_TEXT" in str(error):
        return MediaRejected("image-text", f"text expands beyond the bound, {source.size_bytes} bytes encoded")
    where = f"frame {count + 1}, {type(error).__name__} at byte {place} of {source.size_bytes}"
    ended = "truncated" in str(error) or (isinstance(error, OSError | EOFError) and place >= source.size_bytes)
    return MediaRejected("image-truncated" if ended else "image-undecodable", where)
