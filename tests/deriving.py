"""Ways to have something derived in a real pool, and to look at what came out."""

from __future__ import annotations

import io
import os
import struct

from PIL import Image, ImageCms

from contracts.derivation import Derivation
from contracts.derivation_spec import parse_derivation
from contracts.records import Derivative, Inspection
from intake.children.bare import is_bare
from intake.children.source import Source
from intake.decoders import DecoderPool


async def derived(pool: DecoderPool, data: bytes, recipe: str | Derivation) -> Inspection:
    """The inspection of `data` with a derivative by `recipe`."""
    derive = parse_derivation(recipe) if isinstance(recipe, str) else recipe
    source = os.memfd_create("medium")
    try:
        os.write(source, data)
        return await pool.inspect(source, modality=derive.modality, derive=derive)
    finally:
        os.close(source)


def made(inspection: Inspection) -> Derivative:
    """The derivative, which must be there."""
    assert inspection.derivative is not None
    return inspection.derivative


def opened(derivative: Derivative) -> Image.Image:
    """The picture in a derivative, loaded."""
    image = Image.open(io.BytesIO(derivative.data))
    image.load()
    return image


def bare(media_type: str, data: bytes) -> bool:
    """What the decoder says of a file that holds nothing but its picture or sound."""
    descriptor = os.memfd_create("file")
    try:
        os.write(descriptor, data)
        with Source(descriptor) as source:
            return is_bare(media_type, source)
    finally:
        os.close(descriptor)


def swapped_profile() -> bytes:
    """An ICC profile of sRGB whose red and green have changed places: what a file calls red is shown green."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    (count,) = struct.unpack(">I", profile[128:132])
    for index in range(count):
        place = 132 + 12 * index
        name = bytes(profile[place : place + 4])
        profile[place : place + 4] = {b"rXYZ": b"gXYZ", b"gXYZ": b"rXYZ"}.get(name, name)
    return bytes(profile)
