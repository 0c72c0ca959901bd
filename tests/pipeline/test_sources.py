"""A question about media of every kind of source, from a bundle to receipts that verify."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contracts.digest import Digest
from contracts.outcome import Outcome
from contracts.receipt import Receipt
from contracts.result import QuestionResult
from pipeline.report import write_report
from settings.secret import Secret
from settings.values import Settings
from tests.pipeline.desk import PNG, ask, opened, receipts, served, settings_of, write_bundle
from tests.services.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from tests.simulators.worker import ScriptedWorker, answer

STORED = {"image": f"sha256:{Digest.of(PNG).hex}"}


async def asked(folder: Path, settings: Settings, *parts: dict[str, str]) -> QuestionResult:
    """The result of one question about `parts`."""
    path = write_bundle(folder / "in", ask("q", *parts))
    worker = ScriptedWorker(served(answer("red")))
    async with worker, opened(path, replace(settings, worker_url=worker.url)) as run:
        return await run.answer(0)


def with_objects(settings: Settings, server: Seaweed, *buckets: str) -> Settings:
    """`settings` of a deployment with object storage."""
    return replace(
        settings,
        s3_endpoint_url=server.url,
        s3_access_key_id=Secret(ACCESS_KEY),
        s3_secret_access_key=Secret(SECRET_KEY),
        s3_source_buckets=buckets,
    )


def only(found: list[Receipt]) -> Receipt:
    """The one receipt there is."""
    (receipt,) = found
    return receipt


async def test_an_object_is_asked_about(tmp_path: Path, seaweed: Seaweed) -> None:
    """Its receipt names the version that was asked for and the one that was had, and no credential is anywhere."""
    seaweed.bucket("pipeline", versioned=True)
    old = seaweed.put("pipeline", "case-7/circle.png", PNG)
    seaweed.put("pipeline", "case-7/circle.png", b"other bytes")
    settings = with_objects(settings_of(tmp_path / "home"), seaweed, "pipeline/case-7")
    result = await asked(tmp_path, settings, {"image": f"s3://pipeline/case-7/circle.png?versionId={old}"})
    assert result.outcome is Outcome.COMPLETE
    receipt = only(receipts(settings.home))
    part = receipt.parts[0]
    place = {"bucket": "pipeline", "key": "case-7/circle.png", "version_id": old}
    assert part.locator == {"kind": "s3", **place}
    assert part.acquisition is not None
    assert (part.acquisition["source"], part.acquisition["digest"]) == ("s3", str(Digest.of(PNG)))
    assert part.acquisition["origin"].items() >= place.items()
    page = write_report(tmp_path / "reports", "run-1", [result], title="t", asked={}).read_text("utf-8")
    for told in (receipt.to_bytes().decode(), page):
        assert SECRET_KEY not in told
        assert ACCESS_KEY not in told


@pytest.mark.parametrize(
    ("location", "outcome", "rule"),
    [
        ("s3://elsewhere/circle.png", Outcome.REFUSED, "s3-bucket-not-allowed"),
        ("s3://failing/none.png", Outcome.SOURCE_FAILED, "s3-bucket-missing"),
        (STORED["image"], Outcome.SOURCE_FAILED, "blob-unknown"),
    ],
)
async def test_a_source_that_is_not_had_is_told(
    tmp_path: Path, seaweed: Seaweed, location: str, outcome: Outcome, rule: str
) -> None:
    """By its own rule, with a receipt that names where the medium should have been."""
    settings = with_objects(settings_of(tmp_path / "home"), seaweed, "failing")
    result = await asked(tmp_path, settings, {"image": location})
    assert (result.outcome, result.rule) == (outcome, rule)
    receipt = only(receipts(settings.home))
    assert receipt.parts[0].artifact is None
    assert receipt.parts[0].locator is not None


async def test_what_an_earlier_run_acquired_is_asked_about(tmp_path: Path) -> None:
    """By its digest alone; another tenant of the same home is told that there is nothing."""
    settings = settings_of(tmp_path / "home")
    assert (await asked(tmp_path, settings, {"image": "circle.png"})).outcome is Outcome.COMPLETE
    assert (await asked(tmp_path, settings, STORED)).outcome is Outcome.COMPLETE
    last: dict[str, Any] | None = receipts(settings.home)[-1].parts[0].locator
    assert last == {"kind": "blob", "digest": str(Digest.of(PNG))}
    result = await asked(tmp_path, replace(settings, tenant="other"), STORED)
    assert (result.outcome, result.rule) == (Outcome.SOURCE_FAILED, "blob-unknown")
