"""`mosaic release`: manifests explained, identities, argument vectors, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serving.calibration.bundle import unpack
from serving.embedded_worker import release_of
from tests.command import REPOSITORY, Mosaic
from tests.contracts.releases import PLAN, WHOLE, changed, manifest
from tests.contracts.test_launch import SEED

EXAMPLES = REPOSITORY / "examples" / "releases"


def test_argv_is_the_seeds_vector(mosaic: Mosaic) -> None:
    """One argument per line, and as an array: argument for argument the seed's."""
    file = EXAMPLES / "plan-0.8.17.json"
    lines, array = mosaic("release", "argv", file), mosaic("release", "argv", file, "--json")
    assert (lines.code, lines.out.splitlines()) == (0, SEED.split(" "))
    assert (array.code, json.loads(array.out)) == (0, SEED.split(" "))


def test_argv_names_the_flag_that_is_not_there(mosaic: Mosaic) -> None:
    """The seed's pin with the seed's plan: exit 2, nothing on stdout, the flag and the version that has it."""
    ended = mosaic("release", "argv", EXAMPLES / "plan-0.8.2.json")
    assert (ended.code, ended.out) == (2, "")
    assert "--access-log-format" in ended.err
    assert "first in 0.8.11" in ended.err


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_show_explains_every_field(mosaic: Mosaic, file: Path) -> None:
    """The identity is the last word, and what cannot be launched says why."""
    shown, told = mosaic("release", "show", file, "--json"), mosaic("release", "show", file)
    assert (shown.code, told.code) == (0, 0)
    row = shown.object
    assert row["release"] == json.loads(file.read_text("utf-8"))
    assert (row["argv"] is None) == (row["argv_refused"] is not None)
    assert f"serve identity: {row['identity']}" in told.out
    for word in (*row["release"], "limits.context_tokens", "model.chat_template"):
        assert word in told.out
    assert ("not for evidence" in told.out) == row["release"]["calibration_model"]


def test_show_of_everything(mosaic: Mosaic, tmp_path: Path) -> None:
    """A pool, a quantisation and a topology are explained too."""
    file = tmp_path / "whole.json"
    file.write_bytes(manifest(WHOLE))
    told = mosaic("release", "show", file)
    assert told.code == 0
    assert "kv.paged_attention.memory_percent" in told.out
    assert "model.quantisation.files" in told.out


def test_a_bad_manifest_is_exit_two_with_line_and_field(mosaic: Mosaic, tmp_path: Path) -> None:
    """Who mends it sees where, what was expected and what came; `latest` is refused."""
    file = tmp_path / "bad.json"
    file.write_bytes(manifest(changed(PLAN, {"engine": "latest", "launch.host": "0.0.0.0"})))
    for command in ("show", "argv"):
        ended = mosaic("release", command, file, "--json")
        assert (ended.code, ended.out) == (2, "")
        assert "bad.json:4: engine: no profile of engine version 'latest'; known: 0.8.2" in ended.err
        assert "launch.host: expected 127.0.0.1" in ended.err
    assert mosaic("release", "show", tmp_path / "absent.json").code == 2
    assert mosaic("release", "show", tmp_path).code == 2


def test_the_example_of_the_box_is_the_box(tmp_path: Path) -> None:
    """examples/releases/calibration-0.9.5.json is what the embedded worker serves with this machine's wheel."""
    made = release_of(unpack(tmp_path)).to_json()
    read = json.loads((EXAMPLES / f"{made['name']}.json").read_text("utf-8"))
    made["build"]["wheel"].pop("library")
    read["build"]["wheel"].pop("library")  # each platform's wheel has another
    assert read == made
