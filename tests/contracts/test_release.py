"""The release manifest: strict, and any changed value is another identity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from contracts.artifact import Modality
from contracts.errors import ContractRefused, InputError
from contracts.profile import profile
from contracts.release import Release, parse_release
from tests.contracts.questions import question

FIELDS: dict[str, Any] = {
    "name": "calibration",
    "engine": "0.9.5",
    "engine_build": "wheel mistralrs==0.9.5",
    "route": "/srv/mosaic-models/" + "2" * 64,
    "model_bundle": "sha256:" + "2" * 64,
    "public_model_id": "mosaic/calibration",
    "modalities": ["image", "audio"],
    "calibration_model": True,
    "context_tokens": 4096,
}
OTHER: dict[str, Any] = {
    "name": "other",
    "engine": "0.9.2",
    "engine_build": "sha256:" + "3" * 64,
    "route": "elsewhere",
    "model_bundle": "sha256:" + "4" * 64,
    "public_model_id": "else",
    "modalities": ["audio", "image"],
    "calibration_model": False,
    "context_tokens": 4097,
}


def release(**changes: Any) -> Release:
    return parse_release(msgspec.json.encode(FIELDS | changes))


def test_a_manifest_survives_its_json() -> None:
    """What is written is what is read, with the document's version in it."""
    read = release()
    assert read.to_json() == {"document": "release.v0", **FIELDS}
    assert parse_release(msgspec.json.encode(read)) == read
    assert read.engine_profile() is profile("0.9.5")


@pytest.mark.parametrize("name", FIELDS)
def test_any_changed_value_is_another_identity(name: str) -> None:
    """The serve identity covers the whole manifest; the same manifest has the same one."""
    assert release(**{name: OTHER[name]}).identity() != release().identity()
    assert release().identity() == release().identity()


def test_every_field_is_covered_by_the_identity_test() -> None:
    """A new field cannot be forgotten."""
    assert set(Release.__struct_fields__) == set(FIELDS) | {"document"}
    assert set(OTHER) == set(FIELDS)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"extra": 1}, "release-form"),
    "another document": ({"document": "release.v1"}, "release-form"),
    "a wrong type": ({"context_tokens": "4096"}, "release-form"),
    "an unknown modality": ({"modalities": ["smell"]}, "release-form"),
    "a name with a slash": ({"name": "a/b"}, "release-name"),
    "a route with a space": ({"route": "a b"}, "release-route"),
    "an empty route": ({"route": ""}, "release-route"),
    "no context": ({"context_tokens": 0}, "release-context"),
    "a modality twice": ({"modalities": ["image", "image"]}, "release-modalities"),
    "an uppercase digest": ({"model_bundle": "sha256:" + "A" * 64}, "digest-form"),
    "an unknown engine": ({"engine": "latest"}, "profile-unknown"),
}


@pytest.mark.parametrize(("changes", "rule"), BAD.values(), ids=BAD)
def test_a_manifest_that_is_not_right_is_refused_by_name(changes: dict[str, Any], rule: str) -> None:
    """Also when it is made in the program rather than read."""
    with pytest.raises(InputError) as refused:
        release(**changes)
    assert refused.value.rule == rule


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(document: bytes) -> None:
    """Any bytes are a release or an InputError."""
    with pytest.raises(InputError, match="release-form"):
        parse_release(document)


def test_only_accepted_modalities_are_admitted() -> None:
    """Supported by the engine is not accepted by us."""
    release().admit(question("image", "audio", "Why?"))
    with pytest.raises(ContractRefused) as refused:
        release().admit(question("image", "video", "Why?"))
    assert (refused.value.rule, refused.value.reason) == (
        "modality",
        "calibration accepts image, audio; medium 2 is video",
    )
    assert Modality.VIDEO not in release().modalities
