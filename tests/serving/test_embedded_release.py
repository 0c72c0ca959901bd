"""The embedded worker's release: what it pins, and what it does not pretend to know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.digest import Digest, canonical_json
from contracts.release import parse_release
from serving.calibration.bundle import FILES, unpack
from serving.embedded_worker import ENGINE, release_of
from serving.model_bundle import measured
from tests.tiny_bundle import write_tiny_bundle

pytestmark = [pytest.mark.engine]


def test_the_release_says_what_is_pinned(tmp_path: Path) -> None:
    """A manifest like any other: the wheel's library, the bundle's files, nulls for what a server would have."""
    bundle = unpack(tmp_path)
    release = release_of(bundle)
    assert parse_release(canonical_json(release.to_json())) == release
    build, model = release.build, release.model
    assert build.wheel is not None
    assert (build.wheel.distribution, build.wheel.version, build.binary) == ("mistralrs", ENGINE, None)
    assert (model.tokenizer, model.processor) == (str(FILES["tokenizer.json"]), str(FILES["processor_config.json"]))
    template = json.loads((bundle.path / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
    assert model.chat_template == str(Digest.of(template.encode()))
    assert (release.launch, model.revision, model.licences, release.kv.prefix_cache_n) == (None, None, (), 0)
    assert (model.bundle, release.route, release.calibration_model) == (str(bundle.digest), bundle.route, True)


def test_another_template_is_another_identity(tmp_path: Path) -> None:
    """The template decides what the model reads; it is pinned as itself, and a bundle may have none."""
    write_tiny_bundle(tmp_path)
    before = release_of(measured(tmp_path))
    configuration = tmp_path / "tokenizer_config.json"
    document = json.loads(configuration.read_text("utf-8"))
    configuration.write_text(json.dumps(document | {"chat_template": "{{ bos_token }}"}), "utf-8")
    changed = release_of(measured(tmp_path))
    configuration.unlink()
    without = release_of(measured(tmp_path))
    assert changed.model.chat_template == str(Digest.of(b"{{ bos_token }}"))
    assert without.model.chat_template is None
    assert len({release.identity() for release in (before, changed, without)}) == 3
