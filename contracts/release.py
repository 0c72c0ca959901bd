"""Releases: the manifest that pins which engine answers with which model, and its identity.

The serve identity is the digest of the canonical JSON of the whole manifest (RFC 8785): any changed value is
another identity.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from contracts.artifact import Modality
from contracts.digest import Digest, canonical_digest
from contracts.errors import ContractRefused, InputError
from contracts.profile import Profile, profile
from contracts.question import Question

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ROUTE = re.compile(r"[!-~]{1,512}")


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release (document version 0).

    `engine` is the version and must have a profile; `engine_build` says which build of it: a distribution with its
    version, or the digest of a binary. `route` is the model name on the wire, `model_bundle` the digest of the
    bundle's files, `public_model_id` what people call the model. `modalities` are those we accept, which may be fewer
    than the engine supports. `context_tokens` is the longest prompt and answer together.
    """

    document: Literal["release.v0"] = "release.v0"
    name: str
    engine: str
    engine_build: str
    route: str
    model_bundle: str
    public_model_id: str
    modalities: tuple[Modality, ...]
    calibration_model: bool
    context_tokens: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError("release-name", "expected lowercase letters, digits, '.', '_' and '-', at most 64")
        if not _ROUTE.fullmatch(self.route):
            raise InputError("release-route", "expected 1 to 512 printable ASCII characters without spaces")
        if self.context_tokens < 1:
            raise InputError("release-context", f"expected a number of tokens, got {self.context_tokens}")
        if len(set(self.modalities)) != len(self.modalities):
            raise InputError("release-modalities", "a modality is named twice")
        Digest.parse(self.model_bundle)
        profile(self.engine)

    def engine_profile(self) -> Profile:
        """What is true of this release's engine version."""
        return profile(self.engine)

    def identity(self) -> Digest:
        """The serve identity: the digest of the whole manifest."""
        return canonical_digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The manifest as plain values."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document | {"modalities": [modality.value for modality in self.modalities]}

    def admit(self, question: Question) -> None:
        """Raise ContractRefused (`modality`) for a medium that this release does not accept."""
        accepted = ", ".join(modality.value for modality in self.modalities) or "none"
        for place, part in enumerate(question.media, start=1):
            if part.artifact.modality not in self.modalities:
                got = part.artifact.modality.value
                raise ContractRefused("modality", f"{self.name} accepts {accepted}; medium {place} is {got}")


def parse_release(document: bytes) -> Release:
    """Read a manifest from JSON. Raises InputError for unknown keys, wrong types and broken rules."""
    try:
        return msgspec.json.decode(document, type=Release)
    except InputError:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("release-form", f"not a release manifest: {str(error)[:200]}") from error
