"""Acquire, inspect and store one media part: from a URL or a file to artifacts in the store.

Bytes land in quarantine (an unnamed file, so nothing can be left behind), are hashed while they arrive, fully
decoded in a confined child, and only then committed under their digest. A second sight of the same bytes costs no
decode.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from contracts.artifact import Artifact, Modality
from contracts.bundle import MediaSource
from contracts.digest import Digest, canonical_digest
from contracts.errors import BlobMissing, ChildFailed, IntegrityError, MediaRejected
from contracts.limits import Limits
from contracts.locator import Derived, Locator
from contracts.question import MediaPart
from contracts.records import AcquisitionRecord, Inspection
from contracts.version import VERSION
from intake.decoders import DECODERS
from intake.quarantine import open_quarantine
from pipeline.sources import acquire
from pipeline.steps import in_thread
from pipeline.workshop import Workshop
from storage.inspections import CachedInspection, InspectionKey

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AcquiredPart:
    """A media part in the store: the part as a worker will see it, the original's record, what was found in it."""

    part: MediaPart
    original: Digest
    record: AcquisitionRecord
    inspection: CachedInspection


class MediaBudget:
    """What the parts of one question may still have together: encoded bytes, decoded pixels, decoded samples.

    Three bounds, each spent and judged by itself.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = limits.question_bytes
        self._pixels = limits.question_pixels
        self._samples = limits.question_samples

    def allowance(self, modality: Modality) -> int:
        """How many bytes the next part of `modality` may have. Raises MediaRejected when nothing is left."""
        if self._bytes <= 0:
            allowed = self._limits.question_bytes
            raise MediaRejected("question-bytes", f"the media before this one used up the question's {allowed} bytes")
        own: int = getattr(self._limits, f"{modality.value}_bytes")
        return min(own, self._bytes)

    def spend(self, size_bytes: int, findings: Mapping[str, Any]) -> None:
        """Take off a part's bytes and what they were decoded to.

        Raises MediaRejected (`question-pixels`, `question-samples`) where the parts so far are too much together.
        """
        self._bytes -= size_bytes
        self._pixels -= _product(findings, "width", "height", "frames")
        self._samples -= _product(findings, "samples", "channels")
        if self._pixels < 0:
            allowed = self._limits.question_pixels
            reason = f"expected at most {allowed} decoded pixels, got {allowed - self._pixels} with this part"
            raise MediaRejected("question-pixels", reason)
        if self._samples < 0:
            allowed = self._limits.question_samples
            reason = f"expected at most {allowed} decoded samples, got {allowed - self._samples} with this part"
            raise MediaRejected("question-samples", reason)


def _product(findings: Mapping[str, Any], *names: str) -> int:
    """The product of counts that a confined child found: 0 where one is none, so that no lie gives anything back."""
    counts = [value if isinstance(value := findings.get(name), int) and value > 0 else 0 for name in names]
    return math.prod(counts)


async def acquire_part(
    shop: Workshop, source: MediaSource, *, folder: Path, quarantine: Path, budget: MediaBudget
) -> AcquiredPart:
    """Acquire one part; a file's path is beneath `folder`. Where a child died, its successor tries once more.

    Raises PolicyDenied, FetchError, IntegrityError, MediaRejected or ChildFailed, by the rule that stopped it.
    """
    try:
        return await _try_part(shop, source, folder, quarantine, budget)
    except ChildFailed as error:
        _log.warning("a part is tried again: %s", error)
        return await _try_part(shop, source, folder, quarantine, budget)


async def _try_part(
    shop: Workshop, source: MediaSource, folder: Path, quarantine: Path, budget: MediaBudget
) -> AcquiredPart:
    with open_quarantine(quarantine) as file:
        allowance = budget.allowance(source.modality)
        record = await acquire(shop, source, folder=folder, max_bytes=allowance, file=file)
        digest, size_bytes = record.had()
        if source.sha256 is not None and source.sha256 != digest:
            raise IntegrityError("sha256-mismatch", f"the bundle expects {source.sha256}, the bytes are {digest}")
        found = await _inspect_and_store(shop, source.modality, digest, file)
        budget.spend(size_bytes, found.findings)
    locator: Locator = source.source
    if found.derivative is not None and found.transformation is not None:
        locator = Derived(digest, found.transformation)
    return AcquiredPart(MediaPart(found.derivative or found.artifact, locator), digest, record, found)


async def _inspect_and_store(shop: Workshop, modality: Modality, digest: Digest, file: BinaryIO) -> CachedInspection:
    derive = shop.derivation(modality)
    recipe = {"decoders": DECODERS, "product": VERSION, "derive": derive.to_json() if derive else None}
    key = InspectionKey(digest, modality, str(canonical_digest(recipe)), shop.limits.digest())
    known = await in_thread(_known, shop, key, file)
    if known is not None:
        return known
    inspection = await shop.decoders.inspect(file.fileno(), modality=modality, derive=derive)
    if inspection.artifact.digest != digest:
        raise IntegrityError("changed-in-quarantine", f"acquired {digest}, decoded {inspection.artifact.digest}")
    return await in_thread(_store, shop, key, inspection, file)


def _known(shop: Workshop, key: InspectionKey, file: BinaryIO) -> CachedInspection | None:
    """What was found in these bytes before, if what was made of them is still whole.

    The bytes at hand are put all the same: that heals an original that was lost or damaged in the store.
    """
    known = shop.storage.inspections.find(key)
    if known is None or not _is_whole(shop, known.derivative):
        return None
    file.seek(0)
    shop.storage.blobs.put(file, expected=key.digest)
    return known


def _is_whole(shop: Workshop, artifact: Artifact | None) -> bool:
    if artifact is None:
        return True
    try:
        with shop.storage.blobs.open(artifact.digest, artifact.size_bytes) as reader:
            for _ in reader:
                pass
    except (BlobMissing, IntegrityError):
        return False
    return True


def _store(shop: Workshop, key: InspectionKey, inspection: Inspection, file: BinaryIO) -> CachedInspection:
    file.seek(0)
    shop.storage.blobs.put(file, expected=inspection.artifact.digest)
    derivative, made = None, inspection.derivative
    if made is not None:
        digest, size_bytes = shop.storage.blobs.put_bytes(made.data)
        derivative = Artifact(digest, size_bytes, made.media_type, inspection.artifact.modality)
    found = CachedInspection(
        artifact=inspection.artifact,
        findings=inspection.findings,
        layers=inspection.layers,
        derivative=derivative,
        transformation=made.transformation if made else None,
    )
    shop.storage.inspections.record(key, found, time.time())
    return found
