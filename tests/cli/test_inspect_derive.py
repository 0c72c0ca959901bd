"""`mosaic inspect --derive`: the derivative under its digest's name, and a line that says how it was made."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
from PIL import Image

from tests.command import Mosaic
from tests.media_samples import encode, mp4, picture, sound

FILES = {
    "image:max_side=48,format=jpeg": ("a.png", encode(picture(), "PNG"), "image/jpeg", "jpg"),
    "audio:rate=8000,channels=2": ("a.flac", sound("flac"), "audio/wav", "wav"),
    "video:frames=4": ("a.mp4", mp4(), "image/gif", "gif"),
}


@pytest.mark.parametrize("spec", FILES)
def test_a_derivative_is_written_and_told(mosaic: Mosaic, tmp_path: Path, spec: str) -> None:
    """Its name and digest are those of its bytes; made twice, or over a damaged one, it is the same file, and the
    original stays as it was."""
    name, data, media_type, extension = FILES[spec]
    (tmp_path / name).write_bytes(data)
    out = tmp_path / "made" / "here"
    ended = mosaic("inspect", tmp_path / name, "--derive", spec, "--out", out, "--json")
    assert ended.code == 0
    made = ended.object["derivative"]
    written = Path(made["file"])
    digest = hashlib.sha256(written.read_bytes()).hexdigest()
    assert (made["digest"], written.name) == (f"sha256:{digest}", f"{digest}.{extension}")
    assert (made["media_type"], made["size_bytes"]) == (media_type, written.stat().st_size)
    assert made["transformation"]["tool"]
    assert list(out.iterdir()) == [written]
    written.chmod(0o640)
    written.write_bytes(b"damaged")
    again = mosaic("inspect", tmp_path / name, "--derive", spec, "--out", out, "--json")
    assert again.object["derivative"] == made
    assert (tmp_path / name).read_bytes() == data
    assert hashlib.sha256(written.read_bytes()).hexdigest() == digest


def test_what_needs_none_and_what_cannot_have_one(mosaic: Mosaic, tmp_path: Path) -> None:
    """Accepted without a derivative where the file is one already; rejected, by name, where it is of another kind."""
    normal = io.BytesIO()
    Image.new("RGB", (20, 20), (1, 2, 3)).save(normal, "PNG")
    (tmp_path / "normal.png").write_bytes(normal.getvalue())
    (tmp_path / "tone.wav").write_bytes(sound("wav"))
    files = (tmp_path / "normal.png", tmp_path / "tone.wav")
    ended = mosaic("inspect", *files, "--derive", "image:format=png", "--out", tmp_path / "out", "--json")
    assert ended.code == 1
    first, second = ended.objects
    assert (first["verdict"], first["derivative"]) == ("accept", None)
    assert (second["verdict"], second["rule"], second["derivative"]) == ("reject", "type-modality", None)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--derive", "image:size=3", "--out", "OUT"), "'size' is no parameter of image"),
        (
            (
                "--derive",
                "image",
            ),
            "--out is missing",
        ),
        (("--out", "OUT"), "--derive is missing"),
        (("--derive", "video", "--as", "image", "--out", "OUT"), "expected --as video or none"),
    ],
)
def test_wrong_options_are_refused(mosaic: Mosaic, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """Exit 2 and one sentence, before anything is decoded."""
    (tmp_path / "a.png").write_bytes(encode(picture(), "PNG"))
    given = [str(tmp_path / "out") if option == "OUT" else option for option in options]
    ended = mosaic("inspect", tmp_path / "a.png", *given)
    assert ended.code == 2
    assert said in ended.err
