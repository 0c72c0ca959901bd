"""What earlier runs of the same bundle met: failures that last are not asked for again, unless `--again` says so."""

from __future__ import annotations

import time
from dataclasses import replace

from contracts.bundle import MediaSource
from contracts.digest import Digest
from contracts.http_facts import shown_url
from contracts.records import AcquisitionRecord
from pipeline.steps import in_thread
from pipeline.workshop import Workshop
from storage.acquisitions import FetchKey

REMEMBERED = "remembered"
"""The key of a record's `origin` that names the run whose failure it repeats: nothing was asked this time."""


class FailureMemory:
    """The failures of a bundle's URLs that the ledger has of earlier runs."""

    def __init__(self, shop: Workshop, bundle_digest: Digest) -> None:
        self._shop = shop
        self._bundle_digest = bundle_digest
        self._has_any: bool | None = None

    async def recall(self, source: MediaSource, max_bytes: int) -> AcquisitionRecord | None:
        """The record of a failure that lasts, without any hop; None where the source is to be asked."""
        if not source.is_url or self._has_any is False:
            return None
        return await in_thread(self._find, source.location, max_bytes)

    def _find(self, url: str, max_bytes: int) -> AcquisitionRecord | None:
        shop, known = self._shop, self._shop.storage.acquisitions
        tenant, policy = shop.settings.tenant, shop.policy
        if self._has_any is None:
            self._has_any = known.has_lasting(tenant, self._bundle_digest)
        if not self._has_any:
            return None
        requested, limits = Digest.of(url.encode()), shop.limits.digest()
        key = FetchKey(tenant, self._bundle_digest, requested, policy.digest(), limits, max_bytes)
        found = known.remembered(key)
        if found is None:
            return None
        reason = f"{found.failure.reason} (as run {found.run} met it; it was not asked again)"
        return AcquisitionRecord(
            source="url",
            requested=shown_url(url, with_query=policy.record_queries),
            requested_digest=requested,
            started_at=time.time(),
            seconds=0.0,
            policy=policy.name,
            policy_digest=policy.digest(),
            origin={REMEMBERED: found.run},
            tries=0,
            failure=replace(found.failure, reason=reason),
        )
