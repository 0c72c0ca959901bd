"""Scrub: what is damaged is found, set aside and named with its receipts; what is whole is left alone."""

from __future__ import annotations

import random

import pytest

from contracts.digest import Digest
from contracts.errors import BlobMissing
from contracts.ports import StoredBlob
from storage.home import Storage
from storage.scrub import choose, scrub
from tests.blob_files import overwrite_blob
from tests.receipt_samples import COMPLETE, IMAGE
from tests.storage.recorded import recorded

CHANCE = random.Random(7)


def read_all(storage: Storage) -> list[StoredBlob]:
    """Every blob."""
    return list(storage.blobs.blobs())


def test_a_whole_store_has_no_findings(storage: Storage) -> None:
    """Every blob is read once, and every one is told."""
    recorded(storage)
    told: list[StoredBlob] = []
    blobs = read_all(storage)
    scrubbed = scrub(storage, blobs, len(blobs), told.append)
    assert (scrubbed.damaged, scrubbed.checked, scrubbed.stored) == ((), 5, 5)
    assert scrubbed.checked_bytes == sum(blob.size_bytes for blob in blobs)
    assert told == blobs


def test_damage_is_set_aside_and_named_with_the_receipts_that_refer_to_it(storage: Storage) -> None:
    """Two runs share an image and its byte flipped: both receipts are named, it is served no more, and the right
    bytes put again heal it."""
    first, second = recorded(storage), recorded(storage, run="run-2")
    digest = Digest.of(IMAGE)
    overwrite_blob(storage.blobs, digest, IMAGE[:-1] + b"?")
    blobs = read_all(storage)
    (damaged,) = scrub(storage, blobs, len(blobs)).damaged
    assert (damaged.digest, damaged.set_aside, damaged.receipts) == (digest, True, (first, second))
    with pytest.raises(BlobMissing):
        storage.blobs.open(digest)
    assert [blob.digest for blob in storage.blobs.quarantined()] == [digest]
    storage.blobs.put(IMAGE)
    blobs = read_all(storage)
    assert scrub(storage, blobs, len(blobs)).damaged == ()


def test_damage_that_no_receipt_names_is_found_too(storage: Storage) -> None:
    """A blob is read because it is there."""
    digest, _ = storage.blobs.put(b"nobody's")
    overwrite_blob(storage.blobs, digest, b"other")
    (damaged,) = scrub(storage, read_all(storage), 1).damaged
    assert (damaged.digest, damaged.receipts) == (digest, ())


def test_what_goes_while_it_is_scrubbed_is_no_damage(storage: Storage) -> None:
    """It was listed, and deleted before it was its turn."""
    recorded(storage)
    blobs = read_all(storage)
    storage.blobs.condemn(Digest.of(COMPLETE))
    assert storage.blobs.delete_condemned(*next(storage.blobs.condemned()))
    assert scrub(storage, blobs, len(blobs)).damaged == ()


def test_a_sample_is_that_share_and_never_nothing() -> None:
    """A tenth of a hundred is ten, of five one; all are all."""
    blobs = [StoredBlob(Digest.of(bytes([number])), 10, 0.0) for number in range(100)]
    assert len(choose(blobs, sample=0.1, chance=CHANCE)) == 10
    assert len(choose(blobs[:5], sample=0.1, chance=CHANCE)) == 1
    assert set(choose(blobs, chance=CHANCE)) == set(blobs)
    assert choose([], chance=CHANCE) == []


def test_a_sample_in_bytes_never_exceeds_them() -> None:
    """What does not fit is left out, what is behind it may fit."""
    blobs = [StoredBlob(Digest.of(bytes([number])), 10 + number, 0.0) for number in range(50)]
    chosen = choose(blobs, max_bytes=200, chance=CHANCE)
    assert 200 - 10 < sum(blob.size_bytes for blob in chosen) <= 200


def test_one_scrub_after_the_other_comes_to_every_blob() -> None:
    """The choice is another each time."""
    blobs = [StoredBlob(Digest.of(bytes([number])), 10, 0.0) for number in range(20)]
    seen = {blob for _ in range(100) for blob in choose(blobs, sample=0.2, chance=CHANCE)}
    assert seen == set(blobs)
