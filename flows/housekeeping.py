"""The store's upkeep as flows: to be scheduled, and to be seen in Prefect's UI. Safe beside live runs."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Failed
from pydantic import Field

from tasks import housekeeping
from tasks.housekeeping import show_counts, show_findings


@flow(name="reap", persist_result=False)
async def reap() -> dict[str, int]:
    """Collect what dead processes of this host left: leases, staged files, quarantine, open attempts.

    Returns:
        How many of each.
    """
    counts = await housekeeping.reap_dead()
    await show_counts("reaped", counts)
    return counts


@flow(name="scrub-store", persist_result=False)
async def scrub_store(sample: Annotated[float, Field(gt=0, le=1)] = 1.0) -> dict[str, int] | State[Any]:
    """Hash what the store holds, set damage aside, and look whether leases, files, rows and blobs agree.

    Args:
        sample: The share of the blobs to read, others each time.

    Returns:
        How many blobs and bytes were read. The flow run fails where something does not hold; the findings name it.
    """
    counts, findings = await housekeeping.scrub_store(sample)
    await show_counts("scrubbed", counts)
    if findings:
        await show_findings(findings)
        return Failed(message=f"{len(findings)} findings; the first: {findings[0]['rule']}")
    return counts


@flow(name="collect-blobs", persist_result=False)
async def collect_blobs(delete: bool = False, grace_hours: Annotated[float, Field(ge=0)] = 1.0) -> dict[str, Any]:
    """Collect blobs that nothing refers to, and media whose retention is over, in two phases.

    Args:
        delete: Do it; without, it is only told.
        grace_hours: How long blobs are left alone in either phase.

    Returns:
        What was condemned, deleted, spared and is waiting, each with count and bytes.
    """
    done = await housekeeping.collect_blobs(delete, grace_hours)
    await show_counts("collected", done)
    return done


@flow(name="count-store", persist_result=False)
async def count_store() -> dict[str, Any]:
    """Count blobs and bytes by tenant and kind, and what is shared, set aside, condemned and staged.

    Returns:
        The counts.
    """
    counts = await housekeeping.count_store()
    await show_counts("store", {name: value for name, value in counts.items() if name != "shares"})
    return counts
