"""What a store holds, counted by hand and by the product."""

from __future__ import annotations

from storage.home import Storage
from storage.references import BlobKind
from storage.stats import Amount, stats
from tests.blob_files import overwrite_blob
from tests.receipt_samples import COMPLETE, DERIVED, IMAGE, NOW, ORIGINAL, artifact
from tests.storage.recorded import recorded


def test_an_empty_store_holds_nothing(storage: Storage) -> None:
    """And shares nothing."""
    counted = stats(storage)
    assert (counted.blobs, counted.shares, counted.sharing) == (Amount(), (), 1.0)


def test_two_tenants_share_what_both_name(storage: Storage) -> None:
    """Each tenant's share is all that it names; the store holds it once."""
    for run, tenant in (("run-1", "acme"), ("run-2", "acme"), ("run-3", "beta")):
        recorded(storage, run=run, tenant=tenant)
    counted = stats(storage)
    shares = {(share.tenant, share.kind): share.amount for share in counted.shares}
    assert shares["acme", BlobKind.ORIGINAL] == shares["beta", BlobKind.ORIGINAL] == Amount(2, len(IMAGE + ORIGINAL))
    assert shares["acme", BlobKind.DERIVATIVE] == Amount(1, len(DERIVED))
    assert shares["beta", BlobKind.STREAM] == Amount(1, len(COMPLETE))
    assert counted.receipts == {"acme": 2, "beta": 1}
    assert counted.sharing == 3.0
    assert counted.unnamed == Amount()


def test_what_nobody_names_is_told_apart_from_what_an_open_attempt_names(storage: Storage) -> None:
    """A blob of no receipt is unnamed; damaged, condemned and staged ones are counted as such."""
    recorded(storage)
    storage.blobs.put(b"nobody's")
    storage.blobs.condemn(storage.blobs.put(b"condemned")[0])
    storage.staging.acquire(artifact(IMAGE), tenant="acme", holder="run-1/1", now=NOW, ttl_s=60)
    damaged, _ = storage.blobs.put(b"damaged")
    overwrite_blob(storage.blobs, damaged, b"other")
    assert storage.blobs.quarantine(damaged)
    counted = stats(storage)
    assert counted.unnamed == Amount(2, len(b"nobody's" + b"condemned"))
    assert counted.damaged == Amount(1, len(b"other"))
    assert counted.condemned == Amount(1, len(b"condemned"))
    assert (counted.staged, counted.leases) == (Amount(1, len(IMAGE)), 1)
