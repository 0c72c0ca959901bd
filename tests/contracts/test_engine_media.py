"""What an engine reads itself, and that everything else is refused before it is staged."""

from __future__ import annotations

import pytest

from contracts.artifact import MEDIA_TYPES, Modality
from contracts.engine_media import ENGINE_READS, check_engine_reads
from contracts.errors import MediaRejected


def test_every_pair_of_the_table_is_a_part_that_exists() -> None:
    """The table names accepted types, in modalities that they can have."""
    for modality, media_type in ENGINE_READS:
        assert modality in MEDIA_TYPES[media_type].modalities


@pytest.mark.parametrize(
    ("modality", "media_type", "codec"),
    [
        (Modality.IMAGE, "image/avif", None),
        (Modality.IMAGE, "image/heic", None),
        (Modality.AUDIO, "audio/ogg", "opus"),
        (Modality.AUDIO, "audio/mp4", "aac"),
        (Modality.AUDIO, "audio/aac", "aac"),
        (Modality.VIDEO, "video/mp4", "h264"),
        (Modality.VIDEO, "video/x-matroska", "h264"),
    ],
)
def test_what_no_engine_reads_is_refused_by_name(modality: Modality, media_type: str, codec: str | None) -> None:
    """The refusal names the type, or the codec where the type alone would do."""
    with pytest.raises(MediaRejected, match="engine-unreadable") as caught:
        check_engine_reads(modality, media_type, codec)
    assert media_type in caught.value.reason


@pytest.mark.parametrize(("modality", "media_type"), ENGINE_READS)
def test_what_an_engine_reads_passes(modality: Modality, media_type: str) -> None:
    """With a codec that is read."""
    codecs = ENGINE_READS[modality, media_type] or {None}
    for codec in codecs:
        check_engine_reads(modality, media_type, codec)
