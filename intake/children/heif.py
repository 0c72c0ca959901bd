"""HEIC pictures, decoded by libheif and libde265 (pi-heif, which carries no encoder)."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pi_heif
from PIL import Image

from intake.children.heif_items import check_items
from intake.children.source import Source

MEDIA_TYPES = frozenset({"image/heic"})


def prepare() -> None:
    """One thread, none of the pictures that nobody asked for. Call once, before the confinement."""
    pi_heif.options.DECODE_THREADS = 1
    pi_heif.options.THUMBNAILS = False
    pi_heif.options.DEPTH_IMAGES = False
    pi_heif.options.AUX_IMAGES = False
    try:
        pi_heif.open_heif(io.BytesIO(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"))
    except (ValueError, EOFError, RuntimeError, SyntaxError):
        return  # it had no picture, but what opening loads is loaded


class Pictures:
    """The pictures of a HEIC file, the primary one first; only headers are read until `picture` is called.

    libheif applies the file's own rotation and cropping; `sizes` are those of its headers with these applied.
    """

    def __init__(self, source: Source) -> None:
        check_items(source)
        file = pi_heif.open_heif(source, convert_hdr_to_8bit=True)
        images = list(file)
        images.insert(0, images.pop(file.primary_index))
        self._images = images
        self.sizes: list[tuple[int, int]] = [image.size for image in images]

    def __iter__(self) -> Iterator[Image.Image]:
        """Each picture, decoded, one at a time in memory. Raises ValueError and RuntimeError for what is damaged."""
        while self._images:
            yield _picture(self._images.pop(0))


def _picture(image: pi_heif.HeifImage) -> Image.Image:
    data = image.data
    picture = Image.frombuffer(image.mode, image.size, data, "raw", image.mode, image.stride, 1)
    picture.info = {name: image.info[name] for name in ("exif", "icc_profile") if image.info.get(name)}
    picture.format = "HEIF"
    return picture
