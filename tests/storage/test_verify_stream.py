"""A stream comes to the outcome that the receipt names, or the receipt is found out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from contracts.digest import canonical_json
from contracts.outcome import Outcome
from contracts.receipt import parse_receipt, receipt_id
from storage.disk_blobs import DiskBlobStore
from storage.verify import VerdictName, verify_receipt
from tests.receipt_samples import (
    COMPLETE,
    CUT_SHORT,
    changed,
    receipt,
)
from tests.storage.verifying import rules, verify


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store."""
    return DiskBlobStore(tmp_path)


def test_an_incomplete_stream_cannot_be_passed_off_as_complete(blobs: DiskBlobStore) -> None:
    """The stream is validated again, so its end decides."""
    whole, cut = receipt(blobs), receipt(blobs, CUT_SHORT)
    verdict = verify(changed(whole, stream=cut.stream), blobs)
    assert "stream-outcome" in rules(verdict)


@pytest.mark.parametrize("rule", ["idle-deadline", "total-deadline", "transport-cut", "first-event-deadline"])
def test_a_stream_that_was_cut_from_outside_is_valid_as_such(blobs: DiskBlobStore, rule: str) -> None:
    """The bytes cannot tell which deadline passed; they must not be a whole answer."""
    document = changed(receipt(blobs, CUT_SHORT), rule=rule, reason="60 s without an event")
    assert verify(document, blobs).verdict is VerdictName.VALID


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.COMPLETE])
@pytest.mark.parametrize("keeps_answer", [True, False], ids=["answer kept", "answer dropped"])
def test_a_whole_answer_is_said_to_be_nothing_else(
    blobs: DiskBlobStore, outcome: Outcome, *, keeps_answer: bool
) -> None:
    """Only a lost lease and a cancellation may come beside a whole stream, and they are no answer."""
    document = receipt(blobs)
    data = msgspec.json.decode(document.to_bytes()) | {"outcome": outcome.value, "rule": "forged", "reason": "forged"}
    forged = canonical_json(data if keeps_answer else data | {"answer": None})
    verdict = verify_receipt(receipt_id(forged), forged, blobs)
    if outcome in (Outcome.LEASE_LOST, Outcome.CANCELED):
        assert verdict.findings == ()
        assert not parse_receipt(forged).outcome.is_answer
    else:
        assert verdict.verdict is VerdictName.INVALID


@pytest.mark.parametrize("outcome", [Outcome.LEASE_LOST, Outcome.CANCELED])
@pytest.mark.parametrize("wire", [CUT_SHORT, b"", COMPLETE[:-9]], ids=["cut", "nothing yet", "cut inside an event"])
def test_what_had_come_when_an_attempt_was_ended_from_outside_is_valid(
    blobs: DiskBlobStore, outcome: Outcome, wire: bytes
) -> None:
    """The bytes are kept, and counted again."""
    document = changed(receipt(blobs, wire), outcome=outcome, rule="canceled", reason="stopped")
    assert verify(document, blobs).findings == ()
    assert document.stream is not None
    events = msgspec.structs.replace(document.stream, events=document.stream.events + 1)
    assert rules(verify(changed(document, stream=events), blobs)) == {"stream-events"}


CONTRADICTIONS: dict[str, tuple[bytes, Outcome, str]] = {
    "an empty stream that broke a rule": (b"", Outcome.PROTOCOL_VIOLATION, "empty-stream"),
    "a page that broke a rule of streams": (b"<html>no</html>\n", Outcome.PROTOCOL_VIOLATION, "content-type"),
    "a page beside an error by status": (b"<html>no</html>\n", Outcome.ENGINE_ERROR, "http-status"),
    "a stream of a worker that never answered": (CUT_SHORT, Outcome.UNAVAILABLE, "worker-busy"),
    "a stream of a process that died": (CUT_SHORT, Outcome.ABANDONED, "run-died"),
    "another rule": (CUT_SHORT, Outcome.INCOMPLETE, "eof-before-done"),
}


@pytest.mark.parametrize(("wire", "outcome", "rule"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_stream_beside_an_outcome_that_has_none_is_a_contradiction(
    blobs: DiskBlobStore, wire: bytes, outcome: Outcome, rule: str
) -> None:
    """Where no stream began, none is recorded; where one is, it comes to the outcome."""
    document = changed(receipt(blobs, wire), outcome=outcome, rule=rule, reason="forged")
    assert rules(verify(document, blobs)) == {"stream-outcome"}


def test_a_stream_that_broke_off_is_not_left_out(blobs: DiskBlobStore) -> None:
    """An incomplete answer without the bytes that came of it hides them; an error by status has none."""
    cut = receipt(blobs, CUT_SHORT)
    assert rules(verify(changed(cut, stream=None), blobs)) == {"stream-absent"}
    refused = changed(cut, stream=None, outcome=Outcome.ENGINE_ERROR, rule="http-status", reason="status 500")
    assert verify(refused, blobs).findings == ()
