"""What a medium says about itself beside its pixels and samples: when, where and with what it was made.

Anybody can write it, so it is recorded and never trusted; each name begins with `claimed_`. A derivative carries none
of it. Sources: EXIF 2.32 §4.6, ICC.1:2022 §7.2 and §9.2.41, ISO 6709 annex H.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping
from typing import Any

from PIL import Image

_MAKE, _MODEL, _SOFTWARE, _TIME, _ORIENTATION = 0x010F, 0x0110, 0x0131, 0x0132, 0x0112
_EXIF_IFD, _GPS_IFD = 0x8769, 0x8825
_TIME_ORIGINAL, _OFFSET_ORIGINAL = 0x9003, 0x9011
_CLAIM_CHARS = 128
_CONTAINER_KEYS = {
    "claimed_time": ("com.apple.quicktime.creationdate", "creation_time", "date"),
    "claimed_make": ("com.apple.quicktime.make", "make"),
    "claimed_model": ("com.apple.quicktime.model", "model"),
    "claimed_software": ("com.apple.quicktime.software", "encoder"),
    "claimed_location": ("com.apple.quicktime.location.iso6709", "location"),
}
_ICC_TAGS_MAX = 100
_NAME_ENCODING = codecs.lookup("utf-16-be").name  # looked up here: a confined process loads no codec


def exif_claims(image: Image.Image) -> dict[str, int | str]:
    """`orientation` where it is not 1, claimed_time, _make, _model, _software, _location; or `exif_unreadable`."""
    try:
        exif = image.getexif()
        found = _camera(exif)
        orientation = exif.get(_ORIENTATION)
    except (MemoryError, ImportError):
        raise
    except Exception:  # Pillow's EXIF reader answers hostile data with whatever its parts raise
        return {"exif_unreadable": 1}
    if isinstance(orientation, int) and 2 <= orientation <= 8:
        found["orientation"] = orientation
    return found


def container_claims(metadata: Mapping[str, str]) -> dict[str, int | str]:
    """The same of a container's own metadata."""
    known = {name.lower(): value for name, value in metadata.items()}
    found: dict[str, int | str] = {}
    for name, keys in _CONTAINER_KEYS.items():
        _put(found, name, next((known[key] for key in keys if key in known), None))
    return found


def profile_claims(profile: object) -> dict[str, int | str]:
    """`colour_profile_bytes`, and `colour_profile`, the name in an ICC profile, where it has one."""
    if not isinstance(profile, bytes):
        return {}
    found: dict[str, int | str] = {"colour_profile_bytes": len(profile)}
    _put(found, "colour_profile", _profile_name(profile))
    return found


def _camera(exif: Image.Exif) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    details, place = exif.get_ifd(_EXIF_IFD), exif.get_ifd(_GPS_IFD)
    time = details.get(_TIME_ORIGINAL) or exif.get(_TIME)
    offset = details.get(_OFFSET_ORIGINAL) if _TIME_ORIGINAL in details else None
    _put(found, "claimed_time", f"{time}{offset}" if time and offset else time)
    _put(found, "claimed_make", exif.get(_MAKE))
    _put(found, "claimed_model", exif.get(_MODEL))
    _put(found, "claimed_software", exif.get(_SOFTWARE))
    _put(found, "claimed_location", _location(place))
    return found


def _location(place: Mapping[int, Any]) -> str | None:
    """EXIF 2.32 §4.6.6: latitude and longitude as degrees, minutes and seconds, and their hemispheres."""
    try:
        sides = (
            (_degrees(place[2]), 90, "S", place[1]),
            (_degrees(place[4]), 180, "W", place[3]),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if not all(0 <= value <= most for value, most, _, _ in sides):
        return None
    return "".join(f"{-value if side == negative else value:+.6f}" for value, _, negative, side in sides) + "/"


def _degrees(parts: Any) -> float:
    degrees, minutes, seconds = (float(part) for part in parts)
    return degrees + minutes / 60 + seconds / 3_600


def _profile_name(profile: bytes) -> str | None:
    count = int.from_bytes(profile[128:132], "big")
    for index in range(min(count, _ICC_TAGS_MAX)):
        entry = profile[132 + 12 * index : 144 + 12 * index]
        if len(entry) == 12 and entry[:4] == b"desc":
            offset, size = struct.unpack(">II", entry[4:])
            return _described(profile[offset : offset + size])
    return None


def _described(tag: bytes) -> str | None:
    if tag[:4] == b"desc":  # version 2: a counted ASCII string
        length = int.from_bytes(tag[8:12], "big")
        return tag[12 : 12 + length].decode("ascii", "replace")
    if tag[:4] == b"mluc" and len(tag) >= 28:  # version 4: the first of the localised names, UTF-16
        length, offset = struct.unpack(">II", tag[20:28])
        return tag[offset : offset + length].decode(_NAME_ENCODING, "replace")
    return None


def _put(found: dict[str, int | str], name: str, value: object) -> None:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        text = "".join(character for character in value if character.isprintable()).strip()
        if text:
            found[name] = text[:_CLAIM_CHARS]
