"""The calibration model is unpacked whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving.calibration.bundle import BUNDLE_DIGEST, FILES, ROUTE, WEIGHTS, WEIGHTS_BYTES, unpack
from serving.model_bundle import file_digest, measured


def test_unpacked(tmp_path: Path) -> None:
    """Every file has its pinned digest, the folder its pinned identity, and nothing else is left beside it."""
    bundle = unpack(tmp_path)
    assert {path.name: file_digest(path) for path in bundle.path.iterdir()} == FILES
    assert (bundle.path / WEIGHTS).stat().st_size == WEIGHTS_BYTES
    assert (bundle.digest, bundle.route, bundle.calibration_model) == (BUNDLE_DIGEST, ROUTE, True)
    assert measured(bundle.path).digest == BUNDLE_DIGEST
    assert {path.name for path in (tmp_path / "engine").iterdir()} == {bundle.path.name, ".lock"}


def test_second_time(tmp_path: Path) -> None:
    """A whole bundle is taken as it is."""
    first = unpack(tmp_path)
    before = (first.path / WEIGHTS).stat().st_ino
    assert unpack(tmp_path) == first
    assert (first.path / WEIGHTS).stat().st_ino == before


def _flip(folder: Path) -> None:
    path = folder / WEIGHTS
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(12_345)
        file.write(b"\xff\x00\xff")


def _cut(folder: Path) -> None:
    (folder / "tokenizer.json").chmod(0o600)
    (folder / "tokenizer.json").write_bytes(b"{")


def _lose(folder: Path) -> None:
    (folder / "config.json").unlink()


def _add(folder: Path) -> None:
    (folder / "chat_template.json").write_text("{}")


@pytest.mark.parametrize(
    "damage", [_flip, _cut, _lose, _add], ids=["a byte differs", "a file is cut", "a file is lost", "a file too many"]
)
def test_damage(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A damaged bundle is found and made again."""
    folder = unpack(tmp_path).path
    damage(folder)
    again = unpack(tmp_path)
    assert measured(again.path).digest == BUNDLE_DIGEST
    assert {path.name for path in (tmp_path / "engine").iterdir()} == {folder.name, ".lock"}


def test_crashed_unpacker(tmp_path: Path) -> None:
    """What an unpacker that died left behind is neither used nor kept."""
    leftover = tmp_path / "engine" / ".unpacking-dead"
    leftover.mkdir(parents=True)
    (leftover / WEIGHTS).write_bytes(b"half")
    bundle = unpack(tmp_path)
    assert measured(bundle.path).digest == BUNDLE_DIGEST
    assert not leftover.exists()


def test_many_unpackers(tmp_path: Path) -> None:
    """Unpackers at the same time all get the one whole bundle."""
    with ThreadPoolExecutor(6) as executor:
        bundles = list(executor.map(unpack, [tmp_path] * 6))
    assert len(set(bundles)) == 1
    assert measured(bundles[0].path).digest == BUNDLE_DIGEST
