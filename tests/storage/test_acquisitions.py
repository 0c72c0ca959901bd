"""Acquisitions in the ledger: written with their attempt, found by run, and remembered where the failure lasts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contracts.digest import Digest
from contracts.errors import FetchError, FetchUnavailable, InputError
from contracts.records import AcquisitionRecord, Failure, Hop
from contracts.version import VERSION
from storage.acquisitions import FetchKey, PartAcquisition
from storage.home import Storage
from storage.runs import RunStart
from tests.receipt_samples import ENGINE, NOW, TENANT, draft

URL = Digest.of(b"http://example.org/a.png")
POLICY = Digest.of(b"policy")
OTHER = Digest.of(b"another")
CAP = 1000


def _record(status: int) -> AcquisitionRecord:
    """A fetch that ended with `status`."""
    failure = None
    if status != 200:
        kind = FetchUnavailable if status >= 500 else FetchError
        failure = Failure(kind.__name__, "http-status", f"expected 200, got {status}")
    return AcquisitionRecord(
        source="url",
        requested="http://example.org/a.png",
        requested_digest=URL,
        started_at=NOW,
        seconds=0.25,
        hops=(Hop("http://example.org/a.png", URL, status=status),),
        digest=Digest.of(b"x") if status == 200 else None,
        size_bytes=1 if status == 200 else None,
        policy="public-web",
        policy_digest=POLICY,
        failure=failure,
    )


def _write(storage: Storage, run: str, *statuses: int, asked: bool = True, fetcher: str | None = None) -> FetchKey:
    """A run of one attempt whose parts ended so; the key of all of them."""
    storage.runs.start(RunStart(run, "b1", Digest.of(b"bundle"), TENANT, ENGINE, [("q1", {})]), NOW)
    parts = [
        PartAcquisition(index, CAP, replace(_record(status), fetcher=fetcher), asked)
        for index, status in enumerate(statuses)
    ]
    opened = draft(run=run, attempt=f"attempt of {run}")
    storage.receipts.open_attempt(opened, NOW, parts)
    return FetchKey(
        TENANT, Digest.parse(opened.bundle.digest), URL, POLICY, Digest.parse(opened.limits.digest), max_bytes=CAP
    )


def test_the_records_of_a_run(storage: Storage) -> None:
    """Had and refused, in order, as they are in receipts; of the tenant's own runs only."""
    _write(storage, "run-1", 200, 404)
    _write(storage, "run-2", 503)
    had, gone = storage.acquisitions.of_run("run-1", tenant=TENANT)
    assert had == {"question_id": "q1", "part_index": 0, **_record(200).to_json()}
    assert gone == {"question_id": "q1", "part_index": 1, **_record(404).to_json()}
    assert storage.acquisitions.of_run("run-1", tenant="another") == []


def test_what_lasts_is_remembered(storage: Storage) -> None:
    """With the run that met it and the failure as it was."""
    key = _write(storage, "run-1", 404)
    assert storage.acquisitions.has_lasting(key.tenant, key.bundle_digest)
    found = storage.acquisitions.remembered(key)
    assert found is not None
    assert (found.run, found.failure) == ("run-1", _record(404).failure)


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "another"},
        {"bundle_digest": OTHER},
        {"requested_digest": OTHER},
        {"policy_digest": OTHER},
        {"limits_digest": OTHER},
        {"max_bytes": CAP + 1},
    ],
    ids=lambda other: next(iter(other)),
)
def test_nothing_is_remembered_for_another(storage: Storage, other: dict[str, Any]) -> None:
    """Another tenant, bundle, URL, policy, limit or cap is another question."""
    key = _write(storage, "run-1", 404)
    assert storage.acquisitions.remembered(replace(key, **other)) is None


@pytest.mark.parametrize("later", [200, 503], ids=["had", "failed for a reason that passes"])
def test_the_last_word_of_the_source_counts(storage: Storage, later: int) -> None:
    """What was asked anew meanwhile and ended otherwise is not remembered as it was before."""
    key = _write(storage, "run-1", 404)
    _write(storage, "run-2", later)
    assert storage.acquisitions.remembered(key) is None


def test_a_memory_is_no_source(storage: Storage) -> None:
    """What was answered from the memory is written, and the next run still names the run that asked."""
    key = _write(storage, "run-1", 410)
    _write(storage, "run-2", 410, asked=False)
    found = storage.acquisitions.remembered(key)
    assert found is not None
    assert found.run == "run-1"
    assert len(storage.acquisitions.of_run("run-2", tenant=TENANT)) == 1


def test_what_passes_is_not_remembered(storage: Storage) -> None:
    """A busy server, and bytes that were had."""
    key = _write(storage, "run-1", 503, 200)
    assert not storage.acquisitions.has_lasting(key.tenant, key.bundle_digest)
    assert storage.acquisitions.remembered(key) is None


def test_an_attempt_that_is_not_written_has_no_acquisitions(storage: Storage) -> None:
    """They are rows of its transaction."""
    with pytest.raises(InputError, match="attempt-run"):
        storage.receipts.open_attempt(draft(run="run-9"), NOW, [PartAcquisition(0, CAP, _record(404), asked=True)])
    assert storage.acquisitions.of_run("run-9", tenant=TENANT) == []


@pytest.mark.parametrize(("version", "known"), [(VERSION, True), ("0.0.0", False)], ids=["this version", "another"])
def test_what_another_version_met_is_asked_again(storage: Storage, version: str, known: bool) -> None:
    """It may have refused a URL or an answer that this one takes."""
    by = f"mosaic-evidence/{version} h11/0.16.0 openssl/3.0.0"
    key = _write(storage, "run-1", 404, fetcher=by)
    assert (storage.acquisitions.remembered(key) is not None) is known
