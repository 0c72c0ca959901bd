"""A storage with receipts as runs leave them: for tests of what reads the whole ledger."""

from __future__ import annotations

from contracts.digest import Digest, canonical_digest
from contracts.receipt import BundleRecord, LeaseRecord, Receipt
from storage.home import Storage
from storage.runs import RunStart
from tests.receipt_samples import ENGINE, IMAGE, NOW, TENANT, artifact, changed, draft, receipt, result_of


def recorded(
    storage: Storage,
    *,
    run: str = "run-1",
    tenant: str = TENANT,
    bundle: str = "b1",
    now: float = NOW,
    finished: bool = True,
) -> Digest:
    """One answered question of one run; its receipt's id."""
    identity = {"run": run, "tenant": tenant, "bundle": BundleRecord(id=bundle, digest=str(Digest.of(b"bundle")))}
    attempt = f"attempt-{canonical_digest([run, tenant]).hex[:8]}"
    storage.runs.start(RunStart(run, bundle, Digest.of(b"bundle"), tenant, ENGINE, [("q1", {})]), now)
    storage.receipts.open_attempt(changed(draft(run=run, attempt=attempt), **identity), now)
    storage.blobs.put(IMAGE)
    held = storage.staging.acquire(artifact(IMAGE), tenant=tenant, holder=f"{run}/{attempt}", now=now, ttl_s=60.0)
    leases = (LeaseRecord(id=held.lease.id, fence=held.lease.fence),)
    done: Receipt = changed(receipt(storage.blobs, run=run, attempt=attempt), **identity, leases=leases)
    named = storage.receipts.append(done, result_of(done), now)
    storage.staging.release(held.lease.id, now)
    if finished:
        storage.runs.finish(run, now)
    return named
