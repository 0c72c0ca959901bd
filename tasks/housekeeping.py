"""The store's upkeep as Prefect tasks: what the commands of the same names do, on the host that runs the flow."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from prefect import task
from prefect.artifacts import acreate_table_artifact
from prefect.cache_policies import NO_CACHE

from contracts.printable import printable
from pipeline.steps import in_thread
from settings.load import load
from storage.gc import collect
from storage.home import Storage, storage_of
from storage.invariants import LEFT_BEHIND, invariants
from storage.reap import reap
from storage.scrub import choose, scrub
from storage.stats import stats

_ROWS = 500  # of an artifact, which Prefect keeps in its database


@contextmanager
def _opened() -> Iterator[Storage]:
    storage = storage_of(load())
    try:
        yield storage
    finally:
        storage.close()


@task(cache_policy=NO_CACHE)
async def reap_dead() -> dict[str, int]:
    """Collect what dead processes of this host left; returns the counts."""
    return await in_thread(_reap)


def _reap() -> dict[str, int]:
    with _opened() as storage:
        return asdict(reap(storage, time.time()))


@task(cache_policy=NO_CACHE)
async def scrub_store(sample: float) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Read a share of the blobs, and see whether all parts agree; returns counts, and findings that reap cannot end."""
    return await in_thread(_scrub, sample)


def _scrub(sample: float) -> tuple[dict[str, int], list[dict[str, Any]]]:
    with _opened() as storage:
        blobs = list(storage.blobs.blobs())
        scrubbed = scrub(storage, choose(blobs, sample=sample, chance=random.SystemRandom()), len(blobs))
        broken = [each for each in invariants(storage, time.time()) if each.rule not in LEFT_BEHIND]
    counts = {"stored": scrubbed.stored, "checked": scrubbed.checked, "checked_bytes": scrubbed.checked_bytes}
    findings = [each.to_json() for each in scrubbed.damaged] + [each.to_json() for each in broken]
    return counts, findings


@task(cache_policy=NO_CACHE)
async def collect_blobs(delete: bool, grace_hours: float) -> dict[str, Any]:
    """One collection by the settings' retention; returns what was done, or without `delete` would be."""
    return await in_thread(_collect, delete, grace_hours)


def _collect(delete: bool, grace_hours: float) -> dict[str, Any]:
    with _opened() as storage:
        retention = load().retention_days
        done = collect(storage, retention, time.time(), grace_s=grace_hours * 3_600, delete_blobs=delete)
    return {"dry_run": not delete, **done.to_json()}


@task(cache_policy=NO_CACHE)
async def count_store() -> dict[str, Any]:
    """What the store holds."""
    return await in_thread(_count)


def _count() -> dict[str, Any]:
    with _opened() as storage:
        return stats(storage).to_json()


async def show_counts(key: str, counts: dict[str, Any]) -> None:
    """Counts as a table of the flow run, amounts with their bytes."""
    rows = [{"what": name.replace("_", " "), **_cells(value)} for name, value in counts.items()]
    await acreate_table_artifact(rows, key=key)


async def show_findings(findings: list[dict[str, Any]]) -> None:
    """What does not hold, as a table of the flow run."""
    rows = [{name: printable(str(value or "")) for name, value in each.items()} for each in findings[:_ROWS]]
    await acreate_table_artifact(rows, key="findings", description=f"{len(findings)} findings")


def _cells(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value.keys() == {"count", "size_bytes"}:
        return {"count": value["count"], "bytes": value["size_bytes"]}
    return {"count": value if isinstance(value, int | float) else str(value), "bytes": ""}
