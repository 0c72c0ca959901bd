"""Several hosts on one ledger: each judges its own processes by its own clock, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from contracts.digest import Digest
from contracts.errors import InputError
from settings.secret import Secret
from storage import schema
from storage.home import Storage, open_storage
from storage.process_mark import Liveness, boot_clock_s, liveness, this_process
from storage.reap import Reaped, reap
from storage.runs import RunStart, RunState
from storage.staging import Swept
from tests.receipt_samples import ENGINE, NOW, TENANT, artifact, draft
from tests.services.postgres import Postgres
from tests.storage.conftest import HOST, Dying
from tests.storage.test_reap import RUN_AND_DIE

OTHER = "host-b"
TTL = 30.0


@pytest.fixture
def database_url(postgres: Postgres, prepared_postgres: str) -> Iterator[Secret]:
    """Only PostgreSQL is shared by hosts."""
    name = postgres.database(prepared_postgres)
    yield Secret(postgres.url(name))
    postgres.drop(name)


@pytest.fixture
def other(tmp_path: Path, database_url: Secret) -> Iterator[Storage]:
    """The storage of another host: its own disk, the same database."""
    opened = open_storage(tmp_path / "other", database_url=database_url, host=OTHER)
    yield opened
    opened.close()


def test_who_can_be_judged() -> None:
    """A process of this host by its boot, namespace and start; of another host only if that is gone for good."""
    here = this_process(HOST)
    assert liveness(here, HOST) is Liveness.ALIVE
    assert liveness(replace(here, boot_id="another"), HOST) is Liveness.DEAD
    assert liveness(replace(here, pid_start=1), HOST) is Liveness.DEAD
    assert liveness(replace(here, pid_namespace="pid:[1]"), HOST) is Liveness.UNKNOWN
    elsewhere = replace(here, host=OTHER, boot_id="another", pid_start=1)
    assert liveness(elsewhere, HOST) is Liveness.UNKNOWN
    assert liveness(elsewhere, HOST, {"host-c"}) is Liveness.UNKNOWN
    assert liveness(elsewhere, HOST, {OTHER}) is Liveness.DEAD


def test_another_host_reaps_nothing_of_ours(
    storage: Storage, other: Storage, in_dying_process: Dying, home: Path
) -> None:
    """Our process is dead, which only we can know: its run, lease and file are left to us."""
    in_dying_process(RUN_AND_DIE, str(home))
    assert reap(other, NOW + 5) == Reaped(0, 0, 0, 0, 0, 0, 0)
    assert other.runs.get("run-1", tenant=TENANT).state is RunState.RUNNING
    reaped = reap(storage, NOW + 5)
    assert (reaped.leases_expired, reaped.runs_abandoned, reaped.files_unlinked) == (1, 1, 1)


def test_a_host_that_is_gone_is_reaped_by_another(
    storage: Storage, other: Storage, in_dying_process: Dying, home: Path
) -> None:
    """Its leases expire, its rows of copies go, its attempts are closed with their drafts; should it come back, its
    files are unknown there and go too."""
    in_dying_process(RUN_AND_DIE, str(home))
    reaped = reap(other, NOW + 5, gone={HOST})
    assert (reaped.leases_expired, reaped.runs_abandoned, reaped.attempts_abandoned) == (1, 1, 1)
    assert storage.runs.get("run-1", tenant=TENANT).state is RunState.ABANDONED
    with storage.leases.read() as tx:
        assert tx.execute(select(schema.staged_copy)).all() == []
    back = reap(storage, NOW + 6)
    assert (back.leases_expired, back.files_unlinked, back.quarantine_removed) == (0, 1, 1)


def test_a_host_is_not_gone_while_it_says_so(other: Storage) -> None:
    """Whoever reaps a host is not on it."""
    with pytest.raises(InputError, match="host-here"):
        reap(other, NOW, gone={OTHER})


def test_a_run_that_was_given_up_begins_no_attempt(storage: Storage, other: Storage) -> None:
    """The host was there after all: what was closed stays closed."""
    storage.runs.start(RunStart("run-1", "b1", Digest.of(b"bundle"), TENANT, ENGINE, [("q1", {})]), NOW)
    reap(other, NOW, gone={HOST})
    with pytest.raises(InputError, match="attempt-run"):
        storage.receipts.open_attempt(draft(), NOW)


def test_the_same_file_of_two_hosts(storage: Storage, other: Storage) -> None:
    """Each has it on its own disk under its own lease; fences grow over both; a sweep takes its host's only."""
    held = []
    for each in (storage, other):
        each.blobs.put(b"an image")
        held.append(each.staging.acquire(artifact(b"an image"), tenant=TENANT, holder="run-1/1", now=NOW, ttl_s=TTL))
    assert held[0].lease.fence < held[1].lease.fence
    assert [len(each.staging.active()) for each in (storage, other)] == [1, 1]
    assert other.staging.sweep(NOW + TTL) == Swept(expired=1, unlinked=1)
    assert (held[0].path.exists(), held[1].path.exists()) == (True, False)
    assert storage.staging.renew(held[0].lease, NOW + 10).expires_at == NOW + 10 + TTL


def test_clocks_of_hosts_may_differ(storage: Storage, other: Storage) -> None:
    """An hour ahead on one changes nothing for the leases of the other."""
    storage.blobs.put(b"an image")
    held = storage.staging.acquire(artifact(b"an image"), tenant=TENANT, holder="run-1/1", now=NOW, ttl_s=TTL)
    assert other.staging.sweep(NOW + 3_600, boot_clock_s() + 3_600) == Swept()
    assert held.path.exists()
