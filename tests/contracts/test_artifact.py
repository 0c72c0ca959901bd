"""Artifacts: bytes by identity, of an accepted type and a modality that fits."""

from __future__ import annotations

import pytest

from contracts.artifact import MEDIA_TYPES, Artifact, Modality
from contracts.digest import Digest
from contracts.errors import InputError

DIGEST = Digest("a" * 64)


@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_an_accepted_type_makes_an_artifact_of_its_modalities_only(name: str) -> None:
    """Every other modality is refused by name."""
    for modality in Modality:
        if modality in MEDIA_TYPES[name].modalities:
            assert Artifact(DIGEST, 1, name, modality).media_type == name
        else:
            with pytest.raises(InputError, match="media-modality"):
                Artifact(DIGEST, 1, name, modality)


@pytest.mark.parametrize("name", ["", "image/svg+xml", "IMAGE/PNG", "image/png; q=1", "audio/x-wav", "text/html"])
def test_the_list_of_types_is_closed(name: str) -> None:
    """What is not in the table, also an alias of what is, is refused."""
    with pytest.raises(InputError, match="media-type"):
        Artifact(DIGEST, 1, name, Modality.IMAGE)


def test_every_modality_has_a_type_and_no_two_types_share_an_extension() -> None:
    """A staged name tells the type."""
    covered = {modality for known in MEDIA_TYPES.values() for modality in known.modalities}
    assert covered == set(Modality)
    assert len({known.extension for known in MEDIA_TYPES.values()}) == len(MEDIA_TYPES)


def test_a_gif_is_an_image_or_a_video_by_the_parts_kind() -> None:
    """The same bytes, two artifacts."""
    image, video = (Artifact(DIGEST, 1, "image/gif", kind) for kind in (Modality.IMAGE, Modality.VIDEO))
    assert image != video
    assert image.staged_name == video.staged_name == "a" * 64 + ".gif"


def test_a_size_is_a_number_of_bytes() -> None:
    """None is allowed, fewer are not."""
    assert Artifact(DIGEST, 0, "image/png", Modality.IMAGE).size_bytes == 0
    with pytest.raises(InputError, match="artifact-size"):
        Artifact(DIGEST, -1, "image/png", Modality.IMAGE)


def test_the_json_form_holds_everything() -> None:
    """And nothing of where the bytes are."""
    assert Artifact(DIGEST, 7, "audio/mpeg", Modality.AUDIO).to_json() == {
        "digest": "sha256:" + "a" * 64,
        "size_bytes": 7,
        "media_type": "audio/mpeg",
        "modality": "audio",
    }
