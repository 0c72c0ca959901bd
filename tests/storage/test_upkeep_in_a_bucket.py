"""Scrub, collection and counting where the blobs are in a bucket of a real server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contracts.digest import Digest
from contracts.retention import Retention
from storage.gc import Collected, collect
from storage.home import Storage, open_storage
from storage.invariants import invariants
from storage.s3_blobs import S3BlobStore, S3Store
from storage.scrub import scrub
from storage.stats import stats
from tests.receipt_samples import IMAGE
from tests.services.seaweed import Seaweed, access_of
from tests.storage.recorded import recorded

SETTLE_S = 0.4
STORE = S3Store("contract", f"upkeep/{uuid.uuid4().hex}", "acme")


@pytest.fixture
def storage(seaweed: Seaweed, tmp_path: Path) -> Iterator[Storage]:
    """A storage whose blobs are in a bucket."""
    with suppress(seaweed.client.exceptions.BucketAlreadyOwnedByYou):
        seaweed.bucket(STORE.bucket)
    blobs = S3BlobStore(access_of(seaweed.url), STORE, spool=tmp_path / "spool", settle_s=SETTLE_S)
    opened = open_storage(tmp_path / "home", blobs)
    yield opened
    opened.close()


def collected(storage: Storage, days: float) -> Collected:
    """One collection, when the marks of the last may be acted on; a server's clock counts whole seconds."""
    time.sleep(SETTLE_S + 1.1)
    return collect(storage, Retention({"*": days}), time.time(), grace_s=0.0, delete_blobs=True)


def test_damage_is_set_aside_orphans_and_old_media_go_and_all_is_in_order(storage: Storage, seaweed: Seaweed) -> None:
    """The same as on disk, by the same code."""
    receipt = recorded(storage)
    orphan, _ = storage.blobs.put(b"nobody's")
    digest = Digest.of(IMAGE)
    seaweed.put(STORE.bucket, f"{STORE.folder}sha256/{digest.hex[:2]}/{digest.hex}", b"other")
    blobs = list(storage.blobs.blobs())
    (damaged,) = scrub(storage, blobs, len(blobs)).damaged
    assert (damaged.digest, damaged.set_aside, damaged.receipts) == (digest, True, (receipt,))
    storage.blobs.put(IMAGE)
    assert stats(storage).damaged.count == 1
    assert collected(storage, 36_500).condemned.count == 1
    assert collected(storage, 36_500).deleted.count == 1
    assert not storage.blobs.exists(orphan)
    assert collected(storage, 0).retired == {"acme": 1}
    assert collected(storage, 0).deleted.count == 3
    assert invariants(storage, time.time()) == ()
