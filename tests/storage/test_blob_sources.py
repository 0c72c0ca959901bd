"""Bytes of the store as sources: for the tenant that acquired them, and nothing to be learned for any other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace

import pytest

from contracts.digest import Digest
from contracts.records import AcquisitionRecord, Failure
from storage.acquisitions import PartAcquisition
from storage.blob_sources import BlobSources
from storage.home import Storage
from storage.runs import RunStart
from tests.blob_files import blob_file
from tests.receipt_samples import ENGINE, NOW, TENANT, changed, draft

DATA = bytes(range(256)) * 4_096
DIGEST = Digest.of(DATA)
ABSENT = Digest.of(b"nobody ever had these")


@pytest.fixture
def into() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def acquired(storage: Storage, digest: Digest, *, tenant: str = TENANT, failure: Failure | None = None) -> None:
    """Write into the ledger that an attempt of `tenant` acquired these bytes, or failed to."""
    run = f"run-{tenant}"
    record = AcquisitionRecord("file", "a.png", Digest.of(b"a.png"), NOW, 0.0, (), len(DATA), digest, failure=failure)
    storage.runs.start(RunStart(run, "b1", Digest.of(b"bundle"), tenant, ENGINE, [("q1", {})]), NOW)
    begun = changed(draft(run=run, attempt=f"attempt-{tenant}"), tenant=tenant)
    storage.receipts.open_attempt(begun, NOW, [PartAcquisition(0, 1 << 30, record, asked=True)])


def read(storage: Storage, into: int, digest: Digest = DIGEST, max_bytes: int = 1 << 30) -> AcquisitionRecord:
    """What the tenant of the tests gets."""
    return BlobSources(storage.blobs, storage.ledger).acquire(digest, tenant=TENANT, max_bytes=max_bytes, into=into)


def test_what_a_tenant_acquired_it_may_name(storage: Storage, into: int) -> None:
    """The bytes are copied, verified, and have a record like any acquisition."""
    storage.blobs.put(DATA)
    acquired(storage, DIGEST)
    record = read(storage, into)
    assert record.had() == (DIGEST, len(DATA))
    assert os.read(into, 2 * len(DATA)) == DATA
    assert (record.source, record.requested, record.expected_digest) == ("blob", str(DIGEST), DIGEST)
    assert record.requested_digest == Digest.of(str(DIGEST).encode())
    assert record.to_json()["digest"] == str(DIGEST)


def test_bytes_of_another_tenant_are_as_bytes_that_nobody_has(storage: Storage, into: int) -> None:
    """The two records differ in nothing but the digest that was asked for, and the store is not touched."""
    storage.blobs.put(DATA)
    acquired(storage, DIGEST, tenant="other")
    path = blob_file(storage.blobs, DIGEST)
    path.unlink()
    path.symlink_to("elsewhere")  # who opens it, or asks whether it is there, ends otherwise
    theirs, nobodys = read(storage, into), read(storage, into, ABSENT)
    assert os.fstat(into).st_size == 0
    assert theirs.failure is not None
    assert theirs.failure.rule == "blob-unknown"
    assert _without(theirs, DIGEST) == _without(nobodys, ABSENT)


def test_bytes_of_ones_own_that_are_gone_are_told_alike(storage: Storage, into: int) -> None:
    """So that it cannot be learned whether somebody stored them again."""
    acquired(storage, DIGEST)
    gone = read(storage, into)
    assert _without(gone, DIGEST) == _without(read(storage, into, ABSENT), ABSENT)


def test_an_acquisition_that_failed_names_nothing(storage: Storage, into: int) -> None:
    """Asking for bytes is not having had them, also where the failure's record has their digest."""
    storage.blobs.put(DATA)
    acquired(storage, DIGEST, failure=Failure("IntegrityError", "sha256-mismatch", "other bytes"))
    record = read(storage, into)
    assert record.failure is not None
    assert record.failure.rule == "blob-unknown"


def test_size_is_bounded_while_it_is_copied(storage: Storage, into: int) -> None:
    """Exactly the limit is taken, one byte more is not."""
    storage.blobs.put(DATA)
    acquired(storage, DIGEST)
    assert read(storage, into, max_bytes=len(DATA)).failure is None
    record = read(storage, into, max_bytes=len(DATA) - 1)
    assert record.failure is not None
    assert (record.failure.rule, record.digest) == ("blob-over-limit", None)


def test_damaged_bytes_are_not_had(storage: Storage, into: int) -> None:
    """The copy is verified to its end before it is worth anything."""
    storage.blobs.put(DATA)
    acquired(storage, DIGEST)
    path = blob_file(storage.blobs, DIGEST)
    path.chmod(0o600)
    path.write_bytes(DATA[:-1] + b"?")
    record = read(storage, into)
    assert record.failure is not None
    assert (record.failure.error, record.digest) == ("IntegrityError", None)
    assert [aside.digest for aside in storage.blobs.quarantined()] == [DIGEST]
    again = read(storage, into)
    assert again.failure is not None
    assert again.failure.rule == "blob-unknown"


def test_the_question_costs_no_scan(storage: Storage) -> None:
    """A ledger of millions of acquisitions answers it by an index."""
    with storage.ledger.read() as tx:
        explain = "EXPLAIN QUERY PLAN"
        if tx.dialect.name == "postgresql":
            tx.exec_driver_sql("SET LOCAL enable_seqscan = off")  # it reads an empty table whole, however it is asked
            explain = "EXPLAIN"
        plan = tx.exec_driver_sql(
            f"{explain} SELECT position FROM acquisition WHERE tenant = 'a' AND digest = 'b' AND rule IS NULL"
        ).all()
    assert "acquisition_had" in str(plan[0])


def _without(record: AcquisitionRecord, digest: Digest) -> str:
    """The record as it is written, without times and with a placeholder for the digest."""
    told = replace(record, started_at=0.0, seconds=0.0, requested_digest=Digest(64 * "0"))
    return str(told.to_json()).replace(str(digest), "THE DIGEST")
