"""Acquire, inspect and store one media part: from a URL or a file to artifacts in the store.

Bytes land in quarantine (an unnamed file, so nothing can be left behind), are hashed while they arrive, fully
decoded in a confined child, and only then committed under their digest. A second sight of the same bytes costs no
decode. What the source said, or another run or part was told by it, is a record in any case.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from contracts.artifact import Artifact, Modality
from contracts.bundle import BundleQuestion, MediaSource
from contracts.digest import Digest, canonical_digest
from contracts.engine_media import check_engine_reads
from contracts.errors import BlobMissing, ChildFailed, IntegrityError, MediaRejected
from contracts.lasting_failures import lasts
from contracts.locator import Derived, Locator, redact_url
from contracts.question import MediaPart
from contracts.records import SOURCE_ERRORS, AcquisitionRecord, Failure, Inspection
from contracts.version import VERSION
from intake.judges import judges
from intake.quarantine import open_quarantine
from pipeline.media_budget import DecodedBudget, MediaBudget
from pipeline.remembering import REMEMBERED, FailureMemory
from pipeline.sharing import SharedWork
from pipeline.sources import acquire
from pipeline.steps import in_thread
from pipeline.workshop import Workshop
from storage.inspections import CachedInspection, InspectionKey

_log = logging.getLogger(__name__)
_MISMATCH = "sha256-mismatch"


SHARED = "shared"
"""The key of a record's `origin` that names the acquisition it repeats, as attempt/part: the bytes were had once."""

KEPT = "kept"
"""The key of a record's `origin` that names bytes that were not the expected ones and are in the store all the same."""

_KEPT_RESULTS = 4_096  # of sources that the bundle names again: some 10 MB

Noted = Callable[[AcquisitionRecord, int], None]
"""Is told every record as soon as it is known, with the cap (bytes) that was in force."""


@dataclass(frozen=True, slots=True)
class AcquiredPart:
    """A media part in the store: the part as a worker will see it, the original's record, what was found in it."""

    part: MediaPart
    original: Digest
    record: AcquisitionRecord
    inspection: CachedInspection


@dataclass(frozen=True, slots=True)
class _Ended:
    """How one acquisition ended, and what it goes by: without a failure or a rejection there is an inspection."""

    name: str
    record: AcquisitionRecord
    inspection: CachedInspection | None = None
    rejected: MediaRejected | None = None


class Acquirer:
    """Acquires the parts of one run. A file's path is beneath `folder`; `quarantine` is the run's own.

    Parts that name the same one of the `repeated` URLs share one fetch. Without a `memory` every source is asked.
    """

    def __init__(
        self,
        shop: Workshop,
        *,
        folder: Path | None,
        quarantine: Path,
        repeated: frozenset[str] = frozenset(),
        memory: FailureMemory | None = None,
    ) -> None:
        self._shop = shop
        self._folder = folder
        self._quarantine = quarantine
        self._repeated = repeated
        self._memory = memory
        self._decoded = DecodedBudget.of_bundle(shop.limits)
        self._shared: SharedWork[_Ended] = SharedWork(most=_KEPT_RESULTS, lasting=_is_for_all)

    async def acquire(self, source: MediaSource, *, name: str, budget: MediaBudget, noted: Noted) -> AcquiredPart:
        """Acquire one part, whose acquisition goes by `name`. Where a child died, its successor tries once more.

        Raises PolicyDenied, FetchError, InputError, IntegrityError, MediaRejected or ChildFailed, by the rule that
        stopped it.
        """
        max_bytes = budget.allowance(source.modality)
        try:
            ended = await self._ended(source, max_bytes, name, noted)
        except ChildFailed as error:
            _log.warning("a part is tried again: %s", error)
            ended = await self._ended(source, max_bytes, name, noted)
        original, size_bytes = ended.record.had()
        found = ended.inspection
        if found is None:
            raise _copy(ended.rejected)
        budget.spend(size_bytes, found.findings)
        sent = found.derivative or found.artifact
        check_engine_reads(sent.modality, sent.media_type, None if found.derivative else found.findings.get("codec"))
        locator: Locator = source.source
        if found.derivative is not None and found.transformation is not None:
            locator = Derived(original, found.transformation)
        return AcquiredPart(MediaPart(sent, locator), original, ended.record, found)

    async def _ended(self, source: MediaSource, max_bytes: int, name: str, noted: Noted) -> _Ended:
        """The acquisition of `source`, this part's own or one that it shares."""
        if source.location not in self._repeated:
            return await self._work(source, max_bytes, name, noted)
        ended, is_shared = await self._shared.get(
            (source.location, source.modality, max_bytes),
            lambda: self._work(source, max_bytes, name, noted),
            accept=lambda theirs: _concerns(theirs.record, source.sha256),
        )
        if not is_shared:
            return ended
        record = replace(ended.record, origin={**ended.record.origin, SHARED: ended.name})
        record = _compared(record, source.sha256)
        if _is_mismatch(record) and self._shop.policy.keep_mismatched:
            record = _said_kept(record)  # it is in the store: the other part was content with it
        noted(record, max_bytes)
        return replace(ended, record=record)

    async def _work(self, source: MediaSource, max_bytes: int, name: str, noted: Noted) -> _Ended:
        with open_quarantine(self._quarantine) as file:
            record = _compared(await self._ask(source, max_bytes, file), source.sha256)
            if _is_mismatch(record) and self._shop.policy.keep_mismatched:
                await in_thread(_put, self._shop, record.digest, file)
                record = _said_kept(record)
            noted(record, max_bytes)
            if record.failure is not None:
                return _Ended(name, record)
            digest, _ = record.had()
            try:
                found = await _inspect_and_store(self._shop, source.modality, digest, file, self._decoded)
            except MediaRejected as error:
                return _Ended(name, record, rejected=error)
            return _Ended(name, record, found)

    async def _ask(self, source: MediaSource, max_bytes: int, file: BinaryIO) -> AcquisitionRecord:
        """The record of asking the source, or of what an earlier run was told by it."""
        known = None if self._memory is None else await self._memory.recall(source, max_bytes)
        if known is not None:
            return known
        started_at, started = time.time(), time.monotonic()
        try:
            return await acquire(self._shop, source, folder=self._folder, max_bytes=max_bytes, file=file)
        except tuple(SOURCE_ERRORS.values()) as error:
            return AcquisitionRecord(
                source=source.source.to_json()["kind"],
                requested=redact_url(source.location) if source.is_url else source.location,
                requested_digest=Digest.of(source.location.encode()),
                started_at=started_at,
                seconds=time.monotonic() - started,
                failure=Failure.of(error),
            )


def repeated_urls(questions: Iterable[BundleQuestion]) -> frozenset[str]:
    """The URLs that more than one part of the questions names."""
    seen = Counter(part.location for question in questions for part in question.media if part.is_url)
    return frozenset(url for url, times in seen.items() if times > 1)


def _copy(rejected: MediaRejected | None) -> MediaRejected:
    """An error of its own for each of those who share a rejection: each gets another trace."""
    if rejected is None:
        return MediaRejected("not-inspected", "the bytes were neither accepted nor rejected")
    return MediaRejected(rejected.rule, rejected.reason)


def _compared(record: AcquisitionRecord, expected: Digest | None) -> AcquisitionRecord:
    """`record` with what the bundle expects of the bytes, whatever their source: others are a failure."""
    expected = expected or record.expected_digest  # a source may be named by the digest of its bytes
    record = replace(record, expected_digest=expected)
    if record.failure is not None or expected is None or record.digest == expected:
        return record
    mismatch = IntegrityError(_MISMATCH, f"the bundle expects {expected}, the bytes are {record.digest}")
    return replace(record, failure=Failure.of(mismatch))


def _is_mismatch(record: AcquisitionRecord) -> bool:
    return record.failure is not None and record.failure.rule == _MISMATCH


def _said_kept(record: AcquisitionRecord) -> AcquisitionRecord:
    return replace(record, origin={**record.origin, KEPT: str(record.digest)})


def _concerns(record: AcquisitionRecord, expected: Digest | None) -> bool:
    """Whether an acquisition's end is also that of a part which expects `expected`: bytes that another part did not
    want were not looked at, and this one may want them."""
    return not _is_mismatch(record) or record.expected_digest == expected


def _is_for_all(ended: _Ended) -> bool:
    """Whether an end is told also to parts that come later. What may pass is asked for anew then."""
    return ended.record.failure is None or lasts(ended.record) or REMEMBERED in ended.record.origin


async def _inspect_and_store(
    shop: Workshop, modality: Modality, digest: Digest, file: BinaryIO, decoded: DecodedBudget
) -> CachedInspection:
    derive = shop.derivation(modality)
    recipe = {"decoders": judges(), "product": VERSION, "derive": derive.to_json() if derive else None}
    key = InspectionKey(digest, modality, str(canonical_digest(recipe)), shop.limits.digest())
    known = await in_thread(_known, shop, key, file)
    if known is not None:
        return known
    decoded.check()
    inspection = await shop.decoders.inspect(file.fileno(), modality=modality, derive=derive)
    decoded.spend(inspection.findings)
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
    _put(shop, key.digest, file)
    return known


def _is_whole(shop: Workshop, artifact: Artifact | None) -> bool:
    if artifact is None:
        return True
    try:
        with shop.storage.blobs.open(artifact.digest, artifact.size_bytes) as reader:
            reader.read_to_end()
    except (BlobMissing, IntegrityError):
        return False
    return True


def _put(shop: Workshop, digest: Digest | None, file: BinaryIO) -> None:
    file.seek(0)
    shop.storage.blobs.put(file, expected=digest)


def _store(shop: Workshop, key: InspectionKey, inspection: Inspection, file: BinaryIO) -> CachedInspection:
    _put(shop, inspection.artifact.digest, file)
    derivative, made = None, inspection.derivative
    if made is not None:
        digest, size_bytes = shop.storage.blobs.put(made.data)
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
