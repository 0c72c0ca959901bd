"""Artifacts: digest + size + media type + modality, the only currency between packages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from contracts.digest import Digest
from contracts.errors import InputError


class Modality(str, Enum):
    """What a part is to the model. A GIF is an image or a video by the part's kind, not by its bytes."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type we accept: its modalities and the extension of its staged file."""

    name: str
    extension: str
    modalities: frozenset[Modality]


_I, _A, _V = Modality.IMAGE, Modality.AUDIO, Modality.VIDEO

MEDIA_TYPES = {
    media_type.name: media_type
    for media_type in (
        MediaType("image/png", "png", frozenset({_I})),
        MediaType("image/jpeg", "jpg", frozenset({_I})),
        MediaType("image/webp", "webp", frozenset({_I})),
        MediaType("image/gif", "gif", frozenset({_I, _V})),
        MediaType("image/avif", "avif", frozenset({_I})),
        MediaType("image/heic", "heic", frozenset({_I})),
        MediaType("audio/wav", "wav", frozenset({_A})),
        MediaType("audio/flac", "flac", frozenset({_A})),
        MediaType("audio/ogg", "ogg", frozenset({_A})),
        MediaType("audio/mpeg", "mp3", frozenset({_A})),
        MediaType("audio/mp4", "m4a", frozenset({_A})),
        MediaType("audio/aac", "aac", frozenset({_A})),
        MediaType("video/mp4", "mp4", frozenset({_V})),
        MediaType("video/webm", "webm", frozenset({_V})),
        MediaType("video/quicktime", "mov", frozenset({_V})),
        MediaType("video/x-matroska", "mkv", frozenset({_V})),
        MediaType("video/x-msvideo", "avi", frozenset({_V})),
    )
}
"""Closed: what is not here is refused by name. RIFF/WAVE is `audio/wav`, whatever alias a sniffer gives it."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes by identity. Knows neither where they are nor where they came from."""

    digest: Digest
    size_bytes: int
    media_type: str
    modality: Modality

    def __post_init__(self) -> None:
        known = MEDIA_TYPES.get(self.media_type)
        if known is None:
            raise InputError("media-type", f"{self.media_type!r} is not an accepted media type")
        if self.modality not in known.modalities:
            raise InputError("media-modality", f"{self.media_type} cannot be a {self.modality.value} part")
        if self.size_bytes < 0:
            raise InputError("artifact-size", f"expected a size in bytes, got {self.size_bytes}")

    @property
    def staged_name(self) -> str:
        """The file name under which the bytes are staged: `<hex>.<ext>`."""
        return f"{self.digest.hex}.{MEDIA_TYPES[self.media_type].extension}"

    def to_json(self) -> dict[str, str | int]:
        """The form that identities and receipts hold."""
        return {
            "digest": str(self.digest),
            "size_bytes": self.size_bytes,
            "media_type": self.media_type,
            "modality": self.modality.value,
        }
