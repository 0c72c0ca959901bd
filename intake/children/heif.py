"""HEIC pictures, decoded by libheif and libde265 (pi-heif, which carries no encoder)."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pi_heif
from PIL import Image

from contracts.errors import MediaRejected
from intake.children.source import Source

MEDIA_TYPES = frozenset({"image/heic"})
_META_BYTES = 16 << 20  # an index of a hundred thousand tiles
_TYPE_AT = {b"\2": 8, b"\3": 10}  # in an item's entry, by the version of its form


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
        check_item_types(source)
        file = pi_heif.open_heif(source, convert_hdr_to_8bit=True)
        images = list(file)
        images.insert(0, images.pop(file.primary_index))
        self._images = images
        self.sizes: list[tuple[int, int]] = [image.size for image in images]

    def __iter__(self) -> Iterator[Image.Image]:
        """Each picture, decoded, one at a time in memory. Raises ValueError and RuntimeError for what is damaged."""
        while self._images:
            yield _picture(self._images.pop(0))


def check_item_types(source: Source) -> None:
    """Raises MediaRejected for an item whose type or content type is no text (ISO/IEC 14496-12 §8.11.6): pi-heif 1.4.0
    makes text of both without asking, and dies of what is none."""
    for index in _boxes(_index(source), b"meta"):
        for items in _boxes(index[4:], b"iinf"):
            for entry in _boxes(items[6 if items[:1] == b"\0" else 8 :], b"infe"):
                if not _is_text(entry[_TYPE_AT.get(entry[:1], 4) :]):
                    raise MediaRejected("image-undecodable", f"an item of {len(entry)} bytes whose type is no text")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _index(source: Source) -> bytes:
    """The boxes of the file up to its `meta`, which stands early, and no pixels."""
    offset, end = 0, 0
    while offset < source.size_bytes:
        head = source.at(offset, 8)
        length = int.from_bytes(head[:4], "big")
        end = offset + length
        if head[4:] == b"meta" or length < 8:
            break
        offset = end
    if end > source.size_bytes or end - offset > _META_BYTES:
        raise MediaRejected("image-undecodable", f"an index of {end - offset} bytes, the bound is {_META_BYTES}")
    return source.at(offset, end - offset)


def _boxes(data: bytes, kind: bytes) -> Iterator[bytes]:
    offset = 0
    while offset + 8 <= len(data):
        length = int.from_bytes(data[offset : offset + 4], "big")
        if length < 8:
            return
        if data[offset + 4 : offset + 8] == kind:
            yield data[offset + 8 : offset + length]
        offset += length


def _picture(image: pi_heif.HeifImage) -> Image.Image:
    data = image.data
    picture = Image.frombuffer(image.mode, image.size, data, "raw", image.mode, image.stride, 1)
    picture.info = {name: image.info[name] for name in ("exif", "icc_profile") if image.info.get(name)}
    picture.format = "HEIF"
    return picture
