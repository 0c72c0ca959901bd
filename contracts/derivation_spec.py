"""A derivative's recipe in one line: `image:max_side=768,format=png`, `audio:rate=16000`, `video:times=0.5;1.5`.

`KIND` or `KIND:NAME=VALUE,…`, strictly: an unknown or repeated name, a number that is none and a name that has no
meaning beside another are errors. What is not said has the default that docs/derivatives.md names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from contracts.artifact import Modality
from contracts.derivation import Derivation, derivation_of
from contracts.derivation_document import MAX_FRAMES
from contracts.errors import InputError

SPEC_CHARS = 1_000
JPEG_QUALITY = 90
SCENE_THRESHOLD = 27

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_SECONDS = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,3}))?", re.ASCII)


def parse_derivation(spec: str) -> Derivation:
    """The recipe that `spec` writes. Raises InputError (`derivation-spec`, and the rules of recipes)."""
    if len(spec) > SPEC_CHARS:
        raise _refused(f"expected at most {SPEC_CHARS} characters, got {len(spec)}")
    kind, colon, rest = spec.partition(":")
    if kind not in _READERS:
        raise _refused(f"expected {', '.join(_READERS)} and then what to make of it, got {kind!r}")
    given = _pairs(kind, rest) if colon else {}
    return derivation_of(Modality(kind), _READERS[kind](given))


def _pairs(kind: str, text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    known = _NAMES[kind]
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if name not in known:
            raise _refused(f"{name!r} is no parameter of {kind}; known: {', '.join(known)}")
        if name in given:
            raise _refused(f"{name} is given twice")
        if not value and (equals or name != "scenes"):
            raise _refused(f"expected {name}=VALUE, got {pair!r}")
        given[name] = value
    return given


def _image(given: Mapping[str, str]) -> dict[str, Any]:
    form, alpha = given.get("format", "png"), given.get("alpha", "flatten")
    quality = _number(given, "quality", JPEG_QUALITY) if form == "jpeg" or "quality" in given else None
    background = given.get("background", "ffffff" if alpha == "flatten" else None)
    return {
        "max_side_px": _number(given, "max_side", 1_024),
        "format": form,
        "quality": quality,
        "alpha": alpha,
        "background": background,
    }


def _audio(given: Mapping[str, str]) -> dict[str, Any]:
    return {"rate_hz": _number(given, "rate", 16_000), "channels": _number(given, "channels", 1)}


def _video(given: Mapping[str, str]) -> dict[str, Any]:
    selects = [name for name in ("every", "times", "scenes") if name in given]
    if len(selects) > 1:
        raise _refused(f"expected one of every, times and scenes, got {' and '.join(selects)}")
    select = selects[0] if selects else "even"
    times = _times(given["times"]) if select == "times" else None
    if times is not None and "frames" in given:
        raise _refused("frames has no meaning beside times, which say how many there are")
    square = given.get("square", "trim")
    if square not in ("trim", "allow"):
        raise _refused(f"square: expected trim or allow, got {square!r}")
    most = len(times) if times is not None else 8 if select == "even" else MAX_FRAMES
    return {
        "select": select,
        "frames": _number(given, "frames", most),
        "every": _number(given, "every", 0) if select == "every" else None,
        "times_ms": times,
        "scene_threshold": _number(given, "scenes", SCENE_THRESHOLD) if select == "scenes" else None,
        "max_side_px": _number(given, "max_side", 256),
        "frame_delay_ms": _number(given, "delay", 120),
        "container": "gif",
        "allow_square": square == "allow",
    }


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise _refused(f"{name}: expected a whole number, got {text!r}")
    return int(text)


def _times(text: str) -> list[int]:
    """Seconds with at most three decimals, separated by semicolons, in milliseconds."""
    times = []
    for each in text.split(";"):
        match = _SECONDS.fullmatch(each)
        if match is None:
            raise _refused(f"times: expected seconds such as 0.5;1.25, got {each!r}")
        times.append(int(match[1]) * 1_000 + int((match[2] or "").ljust(3, "0")))
    return times


def _refused(reason: str) -> InputError:
    return InputError("derivation-spec", reason)


_READERS: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {
    "image": _image,
    "audio": _audio,
    "video": _video,
}
_NAMES = {
    "image": ("max_side", "format", "quality", "alpha", "background"),
    "audio": ("rate", "channels"),
    "video": ("frames", "every", "times", "scenes", "max_side", "delay", "square"),
}
