"""`mosaic store` and `mosaic reap`: counts, damage, collection in two phases, holds; what goes on is never touched."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from contracts.digest import Digest
from storage.home import open_storage
from storage.runs import RunStart
from tests.blob_files import overwrite_blob
from tests.command import Mosaic
from tests.receipt_samples import ENGINE, IMAGE, TENANT
from tests.storage.recorded import recorded


@pytest.fixture
def mosaic(tmp_path: Path) -> Mosaic:
    """The command line with a home in which one question of one run was answered, and one blob is nobody's."""
    home = tmp_path / "home"
    storage = open_storage(home)
    recorded(storage)
    storage.blobs.put(b"nobody's")
    storage.close()
    return Mosaic(home, {"MOSAIC_TENANT": TENANT})


def test_stats_count_by_tenant_and_kind(mosaic: Mosaic) -> None:
    """One object, and a table for people."""
    counted = mosaic("store", "stats", "--json").object
    assert counted["blobs"]["count"] == 6
    assert counted["unnamed"] == {"count": 1, "size_bytes": 8}
    assert {(each["tenant"], each["kind"]) for each in counted["shares"]} == {
        ("acme", kind) for kind in ("original", "derivative", "request", "stream")
    }
    assert counted["receipts"] == {"acme": 1}
    shown = mosaic("store", "stats")
    assert shown.code == 0
    assert "derivative" in shown.out


def test_scrub_of_a_whole_store_has_no_findings(mosaic: Mosaic) -> None:
    """Exit 0; a sample reads a part of it."""
    ended = mosaic("store", "scrub", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (ended.object["checked"], ended.object["damaged"], ended.object["findings"]) == (6, 0, [])
    assert mosaic("store", "scrub", "--sample", "0.5", "--json").object["checked"] == 3
    assert mosaic("store", "scrub", "--max-bytes", "1", "--json").object["checked"] == 0


def test_scrub_finds_damage_and_names_its_receipts(mosaic: Mosaic) -> None:
    """Exit 1: the blob is set aside and its receipt named; then it is missing, which scrub says too."""
    storage = open_storage(mosaic.home)
    overwrite_blob(storage.blobs, Digest.of(IMAGE), b"other")
    ((receipt, _),) = storage.receipts.all(tenant=TENANT)
    storage.close()
    ended = mosaic("store", "scrub", "--json")
    assert ended.code == 1
    damaged, missing = ended.object["findings"]
    assert (damaged["rule"], damaged["set_aside"]) == ("blob-damaged", True)
    assert damaged["receipts"] == [str(receipt)]
    assert (missing["rule"], missing["digest"]) == ("blob-missing", str(Digest.of(IMAGE)))
    again = mosaic("store", "scrub")
    assert again.code == 1
    assert "blob-missing" in again.out


def test_scrub_says_what_reap_is_for(mosaic: Mosaic) -> None:
    """What a dead process left is no damage: exit 0, and a word on how to end it."""
    left = mosaic.home / "quarantine" / "run-1"
    left.mkdir(parents=True)
    ended = mosaic("store", "scrub", "--json")
    assert (ended.code, [each["rule"] for each in ended.object["findings"]]) == (0, ["left-over"])
    assert "./mosaic reap" in ended.err
    assert mosaic("reap", "--json").object["quarantine_removed"] == 1
    assert mosaic("store", "scrub", "--json").object["findings"] == []


def test_gc_is_dry_unless_told_and_takes_two_collections(mosaic: Mosaic) -> None:
    """By default nothing changes; what one condemns the next deletes, and receipts stay valid with a note."""
    arguments = ("store", "gc", "--grace-hours", "0", "--json")
    for _ in range(2):
        told = mosaic(*arguments).object
        assert (told["dry_run"], told["condemned"]["count"]) == (True, 1)
    done = mosaic(*arguments, "--delete", "--keep", "acme=0").object
    assert (done["condemned"]["count"], done["retired"]) == (4, {"acme": 1})
    assert mosaic(*arguments, "--yes", "--keep", "acme=0").object["deleted"]["count"] == 4
    verified = mosaic("receipts", "verify", "--all", "--json")
    assert verified.code == 0
    assert verified.object["verdict"] == "valid"
    assert {note["rule"] for note in verified.object["notes"]} == {"media-retired"}
    assert "media removed by retention on " in mosaic("receipts", "verify", "--all").out


def test_retention_of_the_settings_is_in_force(mosaic: Mosaic) -> None:
    """A table of the settings' file; options take its place."""
    settings = mosaic.home / "mosaic.toml"
    settings.write_text('[retention_days]\n"*" = 1\n"acme/b1" = 0\n')
    configured = Mosaic(mosaic.home, {"MOSAIC_SETTINGS": str(settings), "MOSAIC_TENANT": TENANT})
    assert configured("store", "gc", "--grace-hours", "0", "--json").object["retired"] == {"acme": 1}
    assert configured("store", "gc", "--keep", "*=36500", "--json").object["retired"] == {}


def test_a_hold_is_added_listed_and_lifted(mosaic: Mosaic) -> None:
    """What it covers is not collected meanwhile; wrong names are refused with exit 2."""
    added = mosaic("store", "hold", "add", "acme/b1", "--reason", "case 17", "--json")
    assert (added.code, added.object["subject"]) == (0, "acme/b1")
    listed = mosaic("store", "hold", "list", "--json").object
    assert (listed["subject"], listed["reason"]) == ("acme/b1", "case 17")
    assert mosaic("store", "gc", "--keep", "*=0", "--json").object["retired"] == {}
    assert "case 17" in mosaic("store", "hold", "list").out
    assert mosaic("store", "hold", "remove", "acme/b1").code == 0
    assert mosaic("store", "gc", "--keep", "*=0", "--json").object["retired"] == {"acme": 1}
    for wrong in (("add", "No Subject"), ("remove", "acme/b1")):
        refused = mosaic("store", "hold", *wrong)
        assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize("wrong", ["acme", "acme=soon", "acme=-1"])
def test_retention_that_is_none_is_refused(mosaic: Mosaic, wrong: str) -> None:
    """Exit 2, and nothing is collected."""
    assert mosaic("store", "gc", "--delete", "--keep", wrong).code == 2
    assert mosaic("store", "stats", "--json").object["condemned"]["count"] == 0


def test_all_are_safe_beside_a_live_run(mosaic: Mosaic) -> None:
    """A run of this process that has stored a medium and told of nothing yet keeps it through all of them."""
    storage = open_storage(mosaic.home)
    run = RunStart("run-2", "b1", Digest.of(b"bundle"), "acme", ENGINE, [("q1", {})])
    storage.runs.start(run, time.time())
    digest, _ = storage.blobs.put(b"a medium of the live run")
    for _ in range(2):
        assert mosaic("store", "gc", "--grace-hours", "0", "--delete").code == 0
    assert mosaic("store", "scrub").code == 0
    assert mosaic("reap", "--json").object["runs_abandoned"] == 0
    assert storage.blobs.exists(digest)
    storage.runs.finish("run-2", time.time())
    storage.close()
    assert mosaic("store", "gc", "--grace-hours", "0", "--delete", "--json").object["deleted"]["count"] == 2


def test_this_host_is_not_gone(mosaic: Mosaic) -> None:
    """`reap --host` is for another host that is gone for good: here it is refused, and another's name finds nothing."""
    refused = mosaic("reap", "--host", "local")
    assert (refused.code, "host-here" in refused.err) == (2, True)
    assert mosaic("reap", "--host", "elsewhere", "--json").object["leases_expired"] == 0
