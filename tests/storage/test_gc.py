"""The collector: orphans go in two phases, media when their retention is over; what anybody relies on stays."""

from __future__ import annotations

import time

import pytest

from contracts.artifact import Modality
from contracts.digest import Digest
from contracts.errors import InputError, IntegrityError
from contracts.receipt import timestamp
from contracts.retention import DAY_S, Retention
from storage.gc import Collected, collect
from storage.home import Storage
from storage.inspections import CachedInspection, InspectionKey
from storage.invariants import invariants
from storage.retention import add_hold, list_holds, remove_hold, retired_at
from storage.runs import RunStart
from storage.stats import Amount
from storage.verify import VerdictName, verify_receipt
from tests.blob_files import overwrite_blob
from tests.receipt_samples import DERIVED, ENGINE, IMAGE, NOW, ORIGINAL, TENANT, artifact, draft
from tests.storage.recorded import recorded

KEEP = Retention()
MONTH = Retention({"*": 30})
MEDIA = {Digest.of(data) for data in (IMAGE, ORIGINAL, DERIVED)}


def collected(storage: Storage, retention: Retention = KEEP, *, delete: bool = True, grace_s: float = 0.0) -> Collected:
    """One collection, now."""
    return collect(storage, retention, time.time(), grace_s=grace_s, delete_blobs=delete)


def stored(storage: Storage) -> set[Digest]:
    """What is there."""
    return {blob.digest for blob in storage.blobs.blobs()}


def test_an_orphan_goes_in_two_collections(storage: Storage) -> None:
    """A request of a refused lease, say: the first condemns it, the second deletes it; what receipts name stays."""
    recorded(storage)
    named = stored(storage)
    orphan, size = storage.blobs.put(b"a request that was never sent")
    first = collected(storage)
    assert (first.condemned, first.deleted) == (Amount(1, size), Amount())
    assert storage.blobs.exists(orphan)
    second = collected(storage)
    assert (second.condemned, second.deleted) == (Amount(), Amount(1, size))
    assert stored(storage) == named
    assert invariants(storage, time.time()) == ()


def test_a_dry_run_changes_nothing_and_tells_the_same(storage: Storage) -> None:
    """What it says would be done is what is done then."""
    recorded(storage)
    storage.blobs.put(b"orphan")
    for _ in range(2):
        before = (stored(storage), dict(storage.blobs.condemned()))
        told = collected(storage, MONTH, delete=False)
        assert (stored(storage), dict(storage.blobs.condemned())) == before
        assert collected(storage, MONTH) == told
    assert stored(storage).isdisjoint(MEDIA)


def test_media_go_when_their_retention_is_over_and_nothing_else_of_the_receipt(storage: Storage) -> None:
    """Request and stream stay, and the ledger says of which receipts the media were given up, and when."""
    receipt = recorded(storage)
    young = recorded(storage, run="run-2", tenant="beta", now=time.time())
    assert collected(storage, Retention({"acme": 30})).condemned == Amount()  # beta's receipt names the same media
    assert retired_at(storage.ledger, receipt) is not None
    assert collected(storage, Retention({"*": 30, "beta": 0})).retired == {"beta": 1}
    collected(storage, Retention({"*": 0}))
    assert stored(storage).isdisjoint(MEDIA)
    assert len(stored(storage)) == 2
    assert retired_at(storage.ledger, young) is not None


def test_what_is_young_or_of_another_tenant_is_kept(storage: Storage) -> None:
    """Days count from the receipt."""
    now = time.time()
    recorded(storage, now=now - 29 * DAY_S)
    for retention in (MONTH, Retention({"beta": 0}), Retention({"*": 0, "acme": 365}), Retention({"acme/other": 0})):
        assert collected(storage, retention).condemned == Amount()
        assert collected(storage, retention).deleted == Amount()


@pytest.mark.parametrize("subject", ["acme", "acme/b1"])
def test_a_legal_hold_keeps_everything_that_it_covers(storage: Storage, subject: str) -> None:
    """As long as it stands; lifted, retention goes on."""
    receipt = recorded(storage)
    add_hold(storage.ledger, subject, "case 17", NOW)
    for _ in range(2):
        assert collected(storage, MONTH).condemned == Amount()
    assert retired_at(storage.ledger, receipt) is None
    remove_hold(storage.ledger, subject)
    collected(storage, MONTH)
    assert collected(storage, MONTH).deleted.count == 3


def test_a_hold_on_a_digest_keeps_that_blob_alone(storage: Storage) -> None:
    """Also one that no receipt names."""
    recorded(storage)
    orphan, _ = storage.blobs.put(b"orphan")
    for digest in (orphan, Digest.of(IMAGE)):
        add_hold(storage.ledger, str(digest), "exhibit", NOW)
    for _ in range(2):
        collected(storage, MONTH)
    assert stored(storage) & (MEDIA | {orphan}) == {orphan, Digest.of(IMAGE)}


def test_a_hold_saves_what_is_condemned_already(storage: Storage) -> None:
    """It comes between the two phases."""
    recorded(storage)
    collected(storage, MONTH)
    add_hold(storage.ledger, "acme", "late", NOW)
    assert collected(storage, MONTH).spared.count == 3
    assert list(storage.blobs.condemned()) == []


def test_holds_are_listed_and_known_by_name(storage: Storage) -> None:
    """Twice the same, one that is not there, and what is no subject are errors."""
    add_hold(storage.ledger, "acme/b1", "case 17", NOW)
    assert [(hold.subject, hold.reason) for hold in list_holds(storage.ledger)] == [("acme/b1", "case 17")]
    with pytest.raises(InputError, match="hold-exists"):
        add_hold(storage.ledger, "acme/b1", "again", NOW)
    with pytest.raises(InputError, match="hold-unknown"):
        remove_hold(storage.ledger, "acme/b2")
    with pytest.raises(InputError, match="hold-subject"):
        add_hold(storage.ledger, "Acme!", "", NOW)


def begin(storage: Storage, run: str) -> None:
    """A run of this process that has stored nothing yet."""
    storage.runs.start(RunStart(run, "b1", Digest.of(b"bundle"), "acme", ENGINE, [("q1", {})]), time.time())


def test_nothing_is_deleted_while_a_run_lives_that_may_rely_on_it(storage: Storage) -> None:
    """It was condemned beside a run that had stored it and not told yet: when the run has told it is spared."""
    recorded(storage)
    begin(storage, "run-2")
    storage.blobs.put(b"a medium of the live run")
    assert collected(storage).condemned.count == 1
    assert collected(storage).waiting.count == 1
    storage.receipts.open_attempt(draft(run="run-2", attempt="a2"), time.time())
    assert collected(storage).waiting.count == 1
    storage.runs.finish("run-2", time.time())
    assert collected(storage).deleted.count == 1


def test_what_is_stored_again_between_the_phases_is_saved(storage: Storage) -> None:
    """By a run that begins after the first phase, and has told nothing when the second comes."""
    data = b"orphan, and then a medium"
    digest, _ = storage.blobs.put(data)
    collected(storage)
    begin(storage, "run-2")
    storage.blobs.put(data)
    assert collected(storage).deleted == Amount()
    assert collected(storage).waiting.count == 1
    assert storage.blobs.exists(digest)


def test_a_leased_blob_and_a_draft_s_are_kept(storage: Storage) -> None:
    """Whoever holds a staged file may still need to stage it again."""
    storage.blobs.put(IMAGE)
    held = storage.staging.acquire(artifact(IMAGE), tenant="acme", holder="run-1/1", now=time.time(), ttl_s=60)
    assert collected(storage).condemned == Amount()
    storage.staging.release(held.lease.id, time.time())
    assert collected(storage).condemned.count == 1


def test_a_derivative_that_only_an_inspection_names_goes_with_its_row(storage: Storage) -> None:
    """A run that begins later finds no row that would let it rely on a blob that is about to go; a row that is written
    between the phases saves it."""
    storage.blobs.put(DERIVED)
    key = InspectionKey(Digest.of(ORIGINAL), Modality.VIDEO, "frames", Digest.of(b"limits"))
    found = CachedInspection(artifact(ORIGINAL), {}, (), artifact(DERIVED, "image/gif", Modality.VIDEO), {"name": "f"})
    storage.inspections.record(key, found, NOW)
    assert collected(storage).condemned.count == 1
    assert storage.inspections.find(key) is None
    storage.inspections.record(key, found, NOW)
    assert collected(storage).spared.count == 1
    assert collected(storage).condemned.count == 1
    assert collected(storage).deleted.count == 1


def test_the_grace_is_waited_for(storage: Storage) -> None:
    """Neither is condemned what was stored a moment ago, nor deleted what was condemned a moment ago."""
    storage.blobs.put(b"orphan")
    assert collected(storage, grace_s=3_600).condemned == Amount()
    collected(storage)
    told = collected(storage, grace_s=3_600)
    assert (told.waiting.count, told.deleted.count) == (1, 0)


def test_a_receipt_that_cannot_be_read_stops_the_collection(storage: Storage) -> None:
    """Nobody knows what it refers to: nothing is condemned."""
    recorded(storage)
    storage.blobs.put(b"orphan")
    with storage.ledger.write() as tx:
        tx.exec_driver_sql("UPDATE receipt SET document = CAST('{' AS BLOB)" if tx.dialect.name == "sqlite" else
                           "UPDATE receipt SET document = '{'::bytea")  # fmt: skip
    with pytest.raises(IntegrityError, match="receipt-form"):
        collected(storage)
    assert list(storage.blobs.condemned()) == []


def test_a_receipt_whose_media_retention_removed_is_valid_with_a_note_for_each(storage: Storage) -> None:
    """Not missing, which looks like loss: the note says when. What else of it is gone or wrong is still found."""
    receipt = recorded(storage)
    for _ in range(2):
        collected(storage, MONTH)
    identity, data = storage.receipts.get(str(receipt), tenant=TENANT)
    at = retired_at(storage.ledger, identity)
    verdict = verify_receipt(identity, data, storage.blobs, retired_at=at)
    assert verdict.verdict is VerdictName.VALID
    today = timestamp(time.time())[:10]
    assert {note.digest for note in verdict.notes} == {str(digest) for digest in MEDIA}
    assert {note.reason for note in verdict.notes} == {f"media removed by retention on {today}"}
    assert verify_receipt(identity, data, storage.blobs).verdict is VerdictName.UNVERIFIABLE
    storage.blobs.put(IMAGE)
    overwrite_blob(storage.blobs, Digest.of(IMAGE), b"other")
    assert verify_receipt(identity, data, storage.blobs, retired_at=at).verdict is VerdictName.INVALID


def test_retired_media_are_no_finding_of_the_invariants(storage: Storage) -> None:
    """Without the row they would be."""
    recorded(storage)
    for _ in range(2):
        collected(storage, MONTH)
    assert invariants(storage, time.time()) == ()
    with storage.ledger.write() as tx:
        tx.exec_driver_sql("DELETE FROM retired_media")
    assert {finding.rule for finding in invariants(storage, time.time())} == {"blob-missing"}
