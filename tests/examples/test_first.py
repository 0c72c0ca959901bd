"""The newcomer's bundle: valid, small, and made of what its script makes."""

from __future__ import annotations

import runpy
import wave
from pathlib import Path

from jsonschema import Draft202012Validator
from PIL import Image

from contracts.bundle import parse_bundle
from contracts.bundle_schema import bundle_schema
from contracts.bundle_yaml import read_yaml
from contracts.limits import Limits

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "first"
MAX_FILE_BYTES = 20_000


def test_the_bundle_is_valid_for_the_parser_and_the_schema() -> None:
    """What a newcomer copies is right by both readings, and each question says which answer is right."""
    data = (FOLDER / "bundle.yaml").read_bytes()
    bundle = parse_bundle(data, name="bundle.yaml", limits=Limits())
    Draft202012Validator(bundle_schema()).validate(read_yaml("bundle.yaml", data.decode()).value)
    assert {q.id: q.labels["expected"] for q in bundle.questions} == {
        "colour": "red",
        "order": "red then blue",
        "tone": "low",
    }


def test_every_named_file_is_there_and_small() -> None:
    """The bundle needs no network and no large files."""
    bundle = parse_bundle((FOLDER / "bundle.yaml").read_bytes(), name="bundle.yaml", limits=Limits())
    media = [part for question in bundle.questions for part in question.media]
    assert not any(part.is_url for part in media)
    assert all((FOLDER / part.location).stat().st_size < MAX_FILE_BYTES for part in media)


def test_the_script_makes_these_pictures_and_this_sound(tmp_path: Path) -> None:
    """Pixels and samples are compared, not files: encoders differ between Pillow's versions."""
    runpy.run_path(str(FOLDER / "make_media.py"))["make"](tmp_path)
    for name in ("circle.png", "square.png"):
        with Image.open(FOLDER / name) as kept, Image.open(tmp_path / name) as made:
            assert (kept.mode, kept.size, kept.tobytes()) == (made.mode, made.size, made.tobytes())
    with wave.open(str(FOLDER / "tone.wav")) as kept_tone, wave.open(str(tmp_path / "tone.wav")) as made_tone:
        assert kept_tone.getparams() == made_tone.getparams()
        count = kept_tone.getnframes()
        assert kept_tone.readframes(count) == made_tone.readframes(count)
