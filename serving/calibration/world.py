"""The calibration world: cases with a known right answer, each a pure function of task and seed.

Training drew seeds below `HELD_OUT` and never this function; the demo, the probe and the tests draw from
`HELD_OUT` upwards. `draw` gives the media as drawn (pixels, samples, frames), so that who needs another file
format can encode them; `Media.encode` gives the formats that the model was measured with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.artifact import Modality
from serving.calibration.pictures import DIRECTIONS, SHAPES, Clip, Picture, draw_clip, draw_picture, draw_scene
from serving.calibration.tones import Tone, draw_tone

HELD_OUT = 1_000_000_000

TASKS = ("colour", "shape", "order", "same", "count", "tone", "sound", "video", "mixed")
"""The position is part of the seed: never reorder."""

QUESTIONS = {
    "colour": "What colour is the shape?",
    "shape": "What shape is it?",
    "order": "Which colours, in order?",
    "same": "Is it the same shape in both images?",
    "count": "How many shapes?",
    "tone": "Is the tone low or high?",
    "sound": "Is there sound?",
    "video": "Which way does the square move?",
}
_ASKED_OF_MIXED = ("colour", "shape", "tone", "video")
_PITCHES = ("low", "high")
_DIRECTIONS = tuple(DIRECTIONS)

Media = Picture | Tone | Clip


@dataclass(frozen=True, slots=True)
class Case:
    """Media in order, then one question; `answer` is the right one."""

    task: str
    seed: int
    media: tuple[Media, ...]
    question: str
    answer: str


def modality_of(media: Media) -> Modality:
    """What the medium is to the model."""
    if isinstance(media, Picture):
        return Modality.IMAGE
    return Modality.AUDIO if isinstance(media, Tone) else Modality.VIDEO


def media_type_of(media: Media) -> str:
    """The media type of `media.encode()`."""
    if isinstance(media, Picture):
        return media.media_type
    return "audio/wav" if isinstance(media, Tone) else "image/gif"


def draw(task: str, seed: int) -> Case:
    """The case of `task` and `seed`. Raises KeyError for a task that does not exist."""
    make = _MAKERS[task]
    rng = np.random.default_rng([TASKS.index(task), seed])
    media, question, answer = make(rng)
    return Case(task, seed, media, QUESTIONS[question], answer)


_Drawn = tuple[tuple[Media, ...], str, str]
"""Media, the question's name, the answer. The order of draws below is the format: golden digests hang on it."""


def _colour(rng: np.random.Generator) -> _Drawn:
    picture = draw_picture(rng, draw_scene(rng))
    return (picture,), "colour", picture.shapes[0][0]


def _shape(rng: np.random.Generator) -> _Drawn:
    picture = draw_picture(rng, draw_scene(rng))
    return (picture,), "shape", picture.shapes[0][1]


def _order(rng: np.random.Generator) -> _Drawn:
    scenes = [draw_scene(rng), draw_scene(rng)]
    answer = " then ".join(scene.shapes[0][0] for scene in scenes)
    return tuple(draw_picture(rng, scene) for scene in scenes), "order", answer


def _same(rng: np.random.Generator) -> _Drawn:
    shape = SHAPES[rng.integers(4)]
    same = bool(rng.integers(2))
    other = shape if same else [form for form in SHAPES if form != shape][rng.integers(3)]
    pictures = tuple(draw_picture(rng, draw_scene(rng, shape=form)) for form in (shape, other))
    return pictures, "same", "yes" if same else "no"


def _count(rng: np.random.Generator) -> _Drawn:
    count = int(rng.integers(1, 5))
    return (draw_picture(rng, draw_scene(rng, count)),), "count", str(count)


def _tone(rng: np.random.Generator) -> _Drawn:
    pitch = _PITCHES[rng.integers(2)]
    return (draw_tone(rng, pitch),), "tone", pitch


def _sound(rng: np.random.Generator) -> _Drawn:
    answer = ("yes", "no")[rng.integers(2)]
    kind = "silence" if answer == "no" else _PITCHES[rng.integers(2)]
    return (draw_tone(rng, kind),), "sound", answer


def _video(rng: np.random.Generator) -> _Drawn:
    direction = _DIRECTIONS[rng.integers(4)]
    return (draw_clip(rng, direction),), "video", direction


def _mixed(rng: np.random.Generator) -> _Drawn:
    scene = draw_scene(rng)
    pitch, direction = _PITCHES[rng.integers(2)], _DIRECTIONS[rng.integers(4)]
    media = (draw_picture(rng, scene), draw_tone(rng, pitch), draw_clip(rng, direction))
    question = _ASKED_OF_MIXED[rng.integers(4)]
    colour, shape = scene.shapes[0]
    answers = {"colour": colour, "shape": shape, "tone": pitch, "video": direction}
    return media, question, answers[question]


_MAKERS: dict[str, Callable[[np.random.Generator], _Drawn]] = {
    "colour": _colour,
    "shape": _shape,
    "order": _order,
    "same": _same,
    "count": _count,
    "tone": _tone,
    "sound": _sound,
    "video": _video,
    "mixed": _mixed,
}
