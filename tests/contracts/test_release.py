"""The release manifest: strict, explained where it is wrong, and any changed value is another identity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.artifact import Modality
from contracts.derivation import FRAMES, derivation_of
from contracts.derivation_spec import parse_derivation
from contracts.digest import canonical_digest
from contracts.errors import ContractRefused, InputError
from contracts.profile import profile
from contracts.release import parse_release
from contracts.release_document import SECTIONS
from tests.contracts.questions import question
from tests.contracts.releases import (
    BUNDLE,
    PLAN,
    WHOLE,
    changed,
    digest,
    embedded_release,
    launched_release,
    manifest,
    whole_release,
)

OTHER: dict[str, dict[str, Any]] = {
    "name": {"name": "other"},
    "engine": {"engine": "0.9.2"},
    "build.binary": {"build.binary": digest("a")},
    "build.target": {"build.target": "aarch64-unknown-linux-gnu"},
    "build.features": {"build.features": ["cuda", "flash-attn"]},
    "build.toolchain": {"build.toolchain": None},
    "build.driver": {"build.driver": "CUDA 12.6, 560.35"},
    "backend": {"backend": "metal", "build.features": None},
    "route": {"route": f"/models/{BUNDLE}"},
    "model.public_id": {"model.public_id": "else"},
    "model.revision": {"model.revision": "b" * 40},
    "model.bundle": {"model.bundle": digest("b"), "route": "/srv/" + "b" * 64},
    "model.tokenizer": {"model.tokenizer": digest("b")},
    "model.processor": {"model.processor": None},
    "model.chat_template": {"model.chat_template": digest("b")},
    "model.licences": {"model.licences": [digest("6"), digest("b")]},
    "model.format": {"model.format": "gguf", "model.quantisation.method": "gguf"},
    "model.dtype": {"model.dtype": "bf16"},
    "model.quantisation.method": {
        "model.quantisation.method": "isq",
        "model.quantisation.level": "q4k",
        "model.quantisation.files": [],
    },
    "model.quantisation.level": {
        "model.quantisation.method": "isq",
        "model.quantisation.level": "q8_0",
        "model.quantisation.files": [],
    },
    "model.quantisation.files": {"model.quantisation.files": ["q8_0-0.uqff"]},
    "model.quantisation.digest": {"model.quantisation.digest": digest("b")},
    "model.topology.file": {"model.topology.file": "other.yml"},
    "model.topology.digest": {"model.topology.digest": digest("b")},
    "launch.port": {"launch.port": 1235},
    "launch.access_log": {"launch.access_log": None},
    "kv.paged_attention.context_tokens": {"kv.paged_attention.context_tokens": 4097},
    "kv.paged_attention.memory_mb": {
        "kv.paged_attention.context_tokens": None,
        "kv.paged_attention.memory_mb": 4096,
    },
    "kv.paged_attention.memory_percent": {
        "kv.paged_attention.context_tokens": None,
        "kv.paged_attention.memory_percent": 85,
    },
    "kv.paged_attention.block_tokens": {"kv.paged_attention.block_tokens": None},
    "kv.paged_attention.cache_type": {"kv.paged_attention.cache_type": "f8e4m3"},
    "kv.prefix_cache_n": {"kv.prefix_cache_n": 3},
    "kv.tenants": {"kv.tenants": "shared", "kv.prefix_cache_n": 0},
    "modalities": {"modalities": ["audio", "image", "video"]},
    **{f"limits.{name}": {f"limits.{name}": 77} for name in SECTIONS[("limits",)].__struct_fields__},
    "calibration_model": {"calibration_model": True},
    "derivatives.image.max_side_px": {"derivatives.image.max_side_px": 640},
    "derivatives.image.format": {"derivatives.image.format": "jpeg"},
    "derivatives.image.quality": {"derivatives.image.quality": None},
    "derivatives.image.alpha": {"derivatives.image.alpha": "keep", "derivatives.image.background": None},
    "derivatives.image.background": {"derivatives.image.background": "000000"},
    "derivatives.audio.rate_hz": {"derivatives.audio.rate_hz": 24_000},
    "derivatives.audio.channels": {"derivatives.audio.channels": 2},
    "derivatives.video.select": {"derivatives.video.select": "every", "derivatives.video.every": 4},
    "derivatives.video.frames": {"derivatives.video.frames": 16},
    "derivatives.video.every": {"derivatives.video.select": "every", "derivatives.video.every": 5},
    "derivatives.video.times_ms": {"derivatives.video.select": "times", "derivatives.video.times_ms": [0, 500]},
    "derivatives.video.scene_threshold": {
        "derivatives.video.select": "scenes",
        "derivatives.video.scene_threshold": 40,
    },
    "derivatives.video.max_side_px": {"derivatives.video.max_side_px": 512},
    "derivatives.video.frame_delay_ms": {"derivatives.video.frame_delay_ms": 200},
    "derivatives.video.allow_square": {"derivatives.video.allow_square": True},
}
"""For each leaf of the manifest another value, with what must change along."""

WHEEL_LEAVES = {"build.wheel.distribution", "build.wheel.version", "build.wheel.library"}
ONE_VALUE = {"document", "launch.host", "launch.ui", "derivatives.video.container"}


def test_a_manifest_survives_its_json() -> None:
    """What is written is what is read."""
    read = whole_release()
    assert read.to_json() == WHOLE
    assert parse_release(msgspec.json.encode(read)) == read
    assert read.engine_profile() is profile("0.8.17")
    assert read.identity() == canonical_digest(WHOLE)


@pytest.mark.parametrize("path", OTHER)
def test_any_changed_value_is_another_identity(path: str) -> None:
    """The serve identity covers every field of the manifest; the same manifest has the same one."""
    changes = OTHER[path]
    assert path in changes
    assert whole_release(**changes).identity() != whole_release().identity()
    assert whole_release(**changes).identity() == whole_release(**changes).identity()


@pytest.mark.parametrize(
    "wheel",
    [
        {"distribution": "mistralrs-cuda", "version": "0.9.5", "library": digest("7")},
        {"distribution": "mistralrs", "version": "0.9.5", "library": digest("8")},
    ],
    ids=["another distribution", "another library"],
)
def test_another_wheel_is_another_identity(wheel: dict[str, Any]) -> None:
    """The engine in the box is pinned as a binary is; its version is the engine's and cannot change alone."""
    box = embedded_release().to_json()
    other = parse_release(manifest(changed(box, {"build.wheel": wheel})))
    assert other.identity() != embedded_release().identity()


def test_a_manifest_that_says_nothing_of_derivatives_is_what_it_was() -> None:
    """Older manifests keep their identity, and their videos are given as frames, as they were."""
    old = launched_release()
    assert "derivatives" not in old.to_json()
    assert old.identity() == canonical_digest(PLAN)
    assert [old.derivation(modality) for modality in Modality] == [None, None, FRAMES]
    nothing = launched_release(derivatives={"image": None, "audio": None, "video": None})
    assert [nothing.derivation(modality) for modality in Modality] == [None, None, None]
    assert nothing.identity() != old.identity()


def test_what_a_release_needs_of_a_medium_is_what_its_manifest_says() -> None:
    """A recipe written in a manifest is the one that a line writes."""
    release = whole_release()
    lines = {Modality.IMAGE: "image:format=webp,quality=80", Modality.AUDIO: "audio", Modality.VIDEO: "video"}
    for modality, line in lines.items():
        assert release.derivation(modality) == parse_derivation(line)
    timed = whole_release(**OTHER["derivatives.video.times_ms"])
    assert timed.derivation(Modality.VIDEO) == derivation_of(
        Modality.VIDEO, FRAMES.to_json() | {"select": "times", "times_ms": [0, 500]}
    )


def test_every_field_is_covered_by_the_identity_test() -> None:
    """A new field cannot be forgotten."""
    paths = {".".join((*where, name)) for where, section in SECTIONS.items() for name in section.__struct_fields__}
    leaves = paths - {".".join(where) for where in SECTIONS}
    assert leaves == set(OTHER) | WHEEL_LEAVES | ONE_VALUE


@given(st.lists(st.sampled_from(sorted(OTHER)), max_size=4), st.lists(st.sampled_from(sorted(OTHER)), max_size=4))
def test_two_manifests_have_one_identity_exactly_when_they_say_the_same(left: list[str], right: list[str]) -> None:
    """Whatever is changed in whatever order: equal values, equal identity; unequal, unequal."""
    made = []
    for names in (left, right):
        changes = {path: value for name in names for path, value in OTHER[name].items()}
        made.append(changed(WHOLE, changes))
    first, second = (canonical_digest(each) for each in made)
    assert (first == second) == (made[0] == made[1])
    try:
        read = [parse_release(manifest(each)) for each in made]
    except InputError:
        return  # some changes exclude each other
    assert [each.identity() for each in read] == [first, second]


def test_only_accepted_modalities_are_admitted() -> None:
    """Supported by the engine is not accepted by us."""
    narrow = launched_release(modalities=["image", "audio"])
    narrow.admit(question("image", "audio", "Why?"))
    with pytest.raises(ContractRefused) as refused:
        narrow.admit(question("image", "video", "Why?"))
    assert (refused.value.rule, refused.value.reason) == (
        "modality",
        "plan-0.8.17 accepts image, audio; medium 2 is video",
    )
    assert Modality.VIDEO not in narrow.modalities
