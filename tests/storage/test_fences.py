"""An answer is recorded only if its evidence stayed where it was until the answer's end, and until the commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from contracts.digest import Digest
from contracts.errors import LeaseError
from contracts.outcome import Outcome
from contracts.receipt import LeaseRecord, Receipt
from storage.fences import fenced_write
from storage.hold import Held
from storage.home import Storage
from storage.process_mark import boot_clock_s
from storage.runs import RunStart
from storage.staging import Swept
from tests.receipt_samples import ENGINE, NOW, TENANT, artifact, changed, draft, receipt, result_of

TTL = 30.0


@pytest.fixture
def held(storage: Storage) -> Held:
    """A lease under which the question of an open attempt is answered."""
    storage.runs.start(RunStart("run-1", "b1", Digest.of(b"bundle"), TENANT, ENGINE, [("q1", {})]), NOW)
    storage.receipts.open_attempt(draft(), NOW)
    storage.blobs.put(b"an image")
    return storage.staging.acquire(artifact(b"an image"), tenant=TENANT, holder="run-1/1", now=NOW, ttl_s=TTL)


def fence_of(held: Held) -> LeaseRecord:
    """What the receipt says of a lease."""
    return LeaseRecord(id=held.lease.id, fence=held.lease.fence)


def answered(storage: Storage, *leases: LeaseRecord) -> Receipt:
    """A whole answer under these leases."""
    return changed(receipt(storage.blobs), leases=leases)


def expire(storage: Storage, held: Held) -> Swept:
    """A sweep after the lease's time."""
    return storage.staging.sweep(NOW + 2 * TTL, boot_clock_s() + 2 * TTL)


def release(storage: Storage, held: Held) -> bool:
    """Its holder lets it go."""
    return storage.staging.release(held.lease.id, NOW)


def keep(storage: Storage, held: Held) -> None:
    """It stays."""


@pytest.mark.parametrize("end", [keep, release], ids=["held", "let go after the answer"])
def test_an_answer_under_a_lease_that_was_kept_is_recorded(
    storage: Storage, held: Held, end: Callable[[Storage, Held], object]
) -> None:
    """Whether it is still held or its holder let it go."""
    written = answered(storage, fence_of(held))
    end(storage, held)
    storage.receipts.append(written, result_of(written), NOW)
    assert [entry.outcome for entry in storage.receipts.list(tenant=TENANT)] == [Outcome.COMPLETE]


def test_a_lease_that_expired_between_answer_and_commit(storage: Storage, held: Held) -> None:
    """Nothing of the answer is written, and the attempt is still open: for a receipt that says what happened."""
    written = answered(storage, fence_of(held))
    assert expire(storage, held) == Swept(expired=1, unlinked=1)
    with pytest.raises(LeaseError, match=f"lease-lost: lease {held.lease.id}"):
        storage.receipts.append(written, result_of(written), NOW)
    assert storage.receipts.list(tenant=TENANT) == []
    assert list(storage.runs.results("run-1")) == []
    lost = changed(written, outcome=Outcome.LEASE_LOST, rule="lease-lost", reason="it ended")
    storage.receipts.append(lost, result_of(lost), NOW)
    assert [entry.outcome for entry in storage.receipts.list(tenant=TENANT)] == [Outcome.LEASE_LOST]


@pytest.mark.parametrize("which", ["fence", "id"])
def test_a_lease_that_is_not_the_one_that_is_named(storage: Storage, held: Held, which: str) -> None:
    """An older fence, or a lease that never was, proves nothing; one that holds beside it does not help."""
    own = fence_of(held)
    other = (
        LeaseRecord(id=own.id, fence=own.fence - 1) if which == "fence" else LeaseRecord(id="never", fence=own.fence)
    )
    written = answered(storage, own, other)
    with pytest.raises(LeaseError, match="lease-lost"):
        storage.receipts.append(written, result_of(written), NOW)


def test_nothing_expires_while_an_answer_is_committed(storage: Storage, held: Held) -> None:
    """A sweep that would take the lease between the check and the commit leaves it alone or waits for the commit."""
    sweeping = threading.Thread(target=expire, args=(storage, held))
    with fenced_write(storage.ledger, storage.leases, [fence_of(held)]):
        sweeping.start()
        sweeping.join(0.3)  # it does not get at the lease, however long it is waited for
        assert [lease.id for lease in storage.staging.active()] == [held.lease.id]
        assert held.path.exists()
    sweeping.join()
    expire(storage, held)
    assert storage.staging.active() == []


def test_what_failed_needs_no_lease(storage: Storage, held: Held) -> None:
    """A receipt that claims no answer is written whatever became of its leases."""
    failed = answered(storage, fence_of(held))
    failed = changed(failed, outcome=Outcome.INCOMPLETE, rule="stream-cut", reason="cut")
    expire(storage, held)
    storage.receipts.append(failed, result_of(failed), NOW)
    assert [entry.outcome for entry in storage.receipts.list(tenant=TENANT)] == [Outcome.INCOMPLETE]
