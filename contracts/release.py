"""Releases: the manifest that pins which engine answers with which model, and its identity.

The serve identity is the digest of the canonical JSON of the whole manifest (RFC 8785): any changed value is
another identity. `release_document` says what is in a manifest, `release_rules` what must hold, `launch` how it
becomes an argument vector.
"""

from __future__ import annotations

from typing import Any

import msgspec

from contracts.artifact import Modality
from contracts.derivation import FRAMES, Derivation, derivation_of
from contracts.digest import Digest, canonical_digest
from contracts.errors import ContractRefused, InputError
from contracts.profile import Profile, profile
from contracts.question import Question
from contracts.release_document import ReleaseDocument
from contracts.release_reader import field_name, read_release
from contracts.release_rules import release_findings


class Release(ReleaseDocument, frozen=True, kw_only=True):
    """A release that satisfies all rules, whether it was read or made in the program."""

    def __post_init__(self) -> None:
        """Raise InputError for the first rule that is broken; its reason names the field."""
        for path, rule, reason in release_findings(self):
            raise InputError(rule, f"{field_name(path)}: {reason}")

    def engine_profile(self) -> Profile:
        """What is true of this release's engine version."""
        return profile(self.engine)

    def identity(self) -> Digest:
        """The serve identity: the digest of the whole manifest."""
        return canonical_digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The manifest as plain values of JSON."""
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return document

    def derivation(self, modality: Modality) -> Derivation | None:
        """What is made of a part of `modality` before the engine is given it; None takes it as it is."""
        if isinstance(self.derivatives, msgspec.UnsetType):
            return FRAMES if modality is Modality.VIDEO else None
        recipe = getattr(self.derivatives, modality.value)
        return None if recipe is None else derivation_of(modality, recipe)

    def admit(self, question: Question) -> None:
        """Raise ContractRefused (`modality`) for a medium that this release does not accept."""
        accepted = ", ".join(modality.value for modality in self.modalities) or "none"
        for place, part in enumerate(question.media, start=1):
            if part.artifact.modality not in self.modalities:
                got = part.artifact.modality.value
                raise ContractRefused("modality", f"{self.name} accepts {accepted}; medium {place} is {got}")


def parse_release(data: bytes, name: str = "release.json") -> Release:
    """Read a manifest from JSON. `name` is what messages call it.

    Raises InputError for unknown, missing and doubled keys, wrong types and broken rules: line, field, expected, got.
    """
    document = read_release(data, name)
    return Release(**{field: getattr(document, field) for field in document.__struct_fields__})
