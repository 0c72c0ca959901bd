"""A second sight of the same bytes: what was found is remembered under all it depends on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from storage.home import Storage
from storage.inspections import CachedInspection, InspectionKey
from tests.receipt_samples import LIMITS, NOW, artifact

KEY = InspectionKey(Digest.of(b"clip"), Modality.VIDEO, "frames-8", LIMITS.digest())
FOUND = CachedInspection(
    artifact=Artifact(Digest.of(b"clip"), 4, "video/mp4", Modality.VIDEO),
    findings={"frames": 8, "duration_s": "1.2"},
    layers=("no-network",),
    derivative=artifact(b"frames", "image/gif", Modality.VIDEO),
    transformation={"frames": 8},
)


@pytest.mark.parametrize(
    "found", [FOUND, replace(FOUND, derivative=None, transformation=None)], ids=["with", "without"]
)
def test_what_was_recorded_is_found(storage: Storage, found: CachedInspection) -> None:
    """With a derivative and without; recording it again changes nothing."""
    assert storage.inspections.find(KEY) is None
    storage.inspections.record(KEY, found, NOW)
    storage.inspections.record(KEY, replace(found, findings={}), NOW)
    assert storage.inspections.find(KEY) == found


@pytest.mark.parametrize(
    "change",
    [
        {"digest": Digest.of(b"other")},
        {"modality": Modality.IMAGE},
        {"derivation": ""},
        {"limits_digest": Digest.of(b"limits")},
    ],
    ids=["other bytes", "another modality", "another derivation", "other limits"],
)
def test_all_that_a_finding_depends_on_is_its_key(storage: Storage, change: dict[str, Any]) -> None:
    """One of them different is another question."""
    storage.inspections.record(KEY, FOUND, NOW)
    assert storage.inspections.find(replace(KEY, **change)) is None
