"""A recipe in one line: what it says, what it leaves to defaults, and what it may not say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.artifact import Modality
from contracts.derivation import (
    FRAMES,
    AudioDerivation,
    Derivation,
    ImageDerivation,
    VideoDerivation,
    derivation_of,
)
from contracts.derivation_spec import parse_derivation
from contracts.errors import InputError

WRONG = {
    "": "expected image, audio, video",
    "picture:max_side=3": "got 'picture'",
    "image:": "'' is no parameter of image",
    "image:size=3": "known: max_side, format, quality, alpha, background",
    "image:max_side": "expected max_side=VALUE",
    "image:max_side=": "expected max_side=VALUE",
    "image:max_side=1e3": "max_side: expected a whole number",
    "image:max_side=\N{FULLWIDTH DIGIT ONE}00": "max_side: expected a whole number",
    "image:max_side=8": "max_side_px",
    "image:max_side=64,max_side=64": "max_side is given twice",
    "image:format=gif": "format",
    "image:format=png,quality=80": "null for png",
    "image:format=jpeg,quality=96": "quality",
    "image:format=jpeg,alpha=keep": "flatten for jpeg",
    "image:alpha=keep,background=ffffff": "expected null for keep",
    "image:background=white": "six lowercase hex digits",
    "audio:rate=3999": "rate_hz",
    "audio:channels=3": "channels",
    "video:every=2,times=1": "one of every, times and scenes",
    "video:times=1,frames=2": "frames has no meaning beside times",
    "video:times=1;1": "rising times",
    "video:times=.5": "expected seconds",
    "video:times=1.0005": "expected seconds",
    "video:times=" + ";".join(str(second) for second in range(65)): "frames",
    "video:scenes=": "expected scenes=VALUE",
    "video:every=0": "every",
    "video:frames=65": "frames",
    "video:delay=15": "tens of ms",
    "video:square=maybe": "expected trim or allow",
    "video:" + "frames=8," * 200: "at most 1000 characters",
}


@pytest.mark.parametrize(
    ("spec", "recipe"),
    [
        ("video", FRAMES),
        ("video:frames=8,max_side=256,delay=120,square=trim", FRAMES),
        ("audio", AudioDerivation(rate_hz=16_000, channels=1)),
        ("audio:rate=44100,channels=2", AudioDerivation(rate_hz=44_100, channels=2)),
        (
            "image:max_side=768,format=png",
            ImageDerivation(max_side_px=768, format="png", quality=None, alpha="flatten", background="ffffff"),
        ),
        (
            "image:format=jpeg",
            ImageDerivation(max_side_px=1_024, format="jpeg", quality=90, alpha="flatten", background="ffffff"),
        ),
        (
            "image:format=webp,quality=80,alpha=keep",
            ImageDerivation(max_side_px=1_024, format="webp", quality=80, alpha="keep", background=None),
        ),
    ],
)
def test_a_line_is_a_recipe(spec: str, recipe: Derivation) -> None:
    """What is said is taken, what is not has its default."""
    assert parse_derivation(spec) == recipe


@pytest.mark.parametrize(
    ("spec", "select", "value"),
    [
        ("video:every=15", "every", 15),
        ("video:times=0.5;1.25;90", "times_ms", (500, 1_250, 90_000)),
        ("video:scenes", "scene_threshold", 27),
        ("video:scenes=40,frames=9", "scene_threshold", 40),
    ],
)
def test_a_line_selects_frames(spec: str, select: str, value: object) -> None:
    """By step, by times in seconds, by scenes; the other ways stay empty."""
    recipe = parse_derivation(spec)
    assert isinstance(recipe, VideoDerivation)
    given_ = {name: getattr(recipe, name) for name in ("every", "times_ms", "scene_threshold")}
    assert {name: each for name, each in given_.items() if each is not None} == {select: value}


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_line_says_what_is_wrong(spec: str) -> None:
    """One sentence that names the parameter, for each way of being wrong."""
    with pytest.raises(InputError) as caught:
        parse_derivation(spec)
    assert WRONG[spec] in caught.value.reason


@given(st.text("imageudov:=,;.0123 frsc", max_size=40))
def test_any_line_is_a_recipe_or_refused(spec: str) -> None:
    """Nothing else comes out, and what comes out is the same after crossing to the decoder."""
    try:
        recipe = parse_derivation(spec)
    except InputError:
        return
    assert derivation_of(recipe.modality, recipe.to_json()) == recipe


def test_a_recipe_is_closed() -> None:
    """A key too many or too few is no recipe, from whatever wrote it."""
    plain = FRAMES.to_json()
    for wrong in (plain | {"more": 1}, {name: value for name, value in plain.items() if name != "every"}, {}):
        with pytest.raises(InputError, match="derivation-form"):
            derivation_of(Modality.VIDEO, wrong)
