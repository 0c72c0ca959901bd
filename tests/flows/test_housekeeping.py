"""The store's upkeep as flows, on a real Prefect server: what the commands do, with the counts to be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.digest import Digest
from flows import housekeeping
from storage.home import open_storage
from tests.blob_files import overwrite_blob
from tests.flows.test_analyze_bundle import _ask_server, api
from tests.receipt_samples import IMAGE
from tests.storage.recorded import recorded

__all__ = ["api"]

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # Prefect leaves its own clients to the collector
]


async def test_upkeep(api: str, tmp_path: Path) -> None:
    """Reap, scrub, collect and count work on the settings' store; each shows a table. A scrub that finds damage is a
    failed flow run with the damaged blob among its findings."""
    storage = open_storage(tmp_path / "home")
    recorded(storage)
    storage.blobs.put(b"nobody's")
    with pytest.MonkeyPatch.context() as environment:  # of this process, which is where a deployment's come from
        environment.setenv("MOSAIC_HOME", str(tmp_path / "home"))
        assert (await housekeeping.reap())["runs_abandoned"] == 0
        scrubbed: Any = await housekeeping.scrub_store(return_state=True)
        assert (await scrubbed.result())["checked"] == 6
        told = await housekeeping.collect_blobs(grace_hours=0)
        assert (told["dry_run"], told["condemned"]["count"]) == (True, 1)
        assert list(storage.blobs.condemned()) == []
        assert (await housekeeping.collect_blobs(delete=True, grace_hours=0))["condemned"]["count"] == 1
        assert (await housekeeping.count_store())["condemned"]["count"] == 1
        overwrite_blob(storage.blobs, Digest.of(IMAGE), b"other")
        damaged: Any = await housekeeping.scrub_store(return_state=True)
    storage.close()
    assert damaged.is_failed()
    assert "blob-damaged" in damaged.message
    tables = await _ask_server(api, "artifacts", {})
    assert {each["key"] for each in tables} >= {"reaped", "scrubbed", "collected", "store", "findings"}
