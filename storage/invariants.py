"""What always holds between a storage's parts: leases, staged files, runs, attempts, receipts, outbox and blobs.

After a crash something may be left over until reap was there (`LEFT_BEHIND`); everything else that does not hold is
damage. Safe and exact beside live runs: rows are compared within one statement, staged files under their lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, select

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.receipt_checks import Finding
from storage.home import BLOBS, Storage
from storage.incoming import abandoned
from storage.process_mark import Liveness, liveness
from storage.reap import is_left_over
from storage.references import receipt_references
from storage.retention import retired_receipts
from storage.runs import RunState
from storage.schema import attempt as attempts
from storage.schema import outbox
from storage.schema import question as questions
from storage.schema import receipt as receipts
from storage.schema import run as runs
from storage.schema import staged_copy as copies

LEFT_BEHIND = frozenset({"lease-orphaned", "lease-overdue", "staged-row", "staged-unknown", "run-dead", "left-over"})
"""Rules of findings that reap ends."""


def invariants(storage: Storage, now: float, *, read_staged: bool = True) -> tuple[Finding, ...]:
    """Everything that does not hold; empty is right. `read_staged` hashes the staged files too.

    Whether blobs are whole is for scrub; here it is whether they are there. Raises StorageError.
    """
    found = (*_rows(storage), *_blobs(storage), *_dead_runs(storage))
    return (*found, *_leases(storage, now), *_staged(storage, now, read_staged), *_left_over(storage, now))


def _rows(storage: Storage) -> Iterator[Finding]:
    """Attempts ↔ runs ↔ questions ↔ receipts ↔ outbox."""
    for rule, reason, query in _DISAGREEMENTS:
        with storage.ledger.read() as tx:
            names = tx.execute(query).scalars().all()
        yield from (Finding(rule, f"{reason}: {name}") for name in names)


_ENDED = runs.c.state != RunState.RUNNING.value
_IN_RUN = questions.join(runs, runs.c.id == questions.c.run_id)
_OF_RUN = attempts.join(runs, runs.c.id == attempts.c.run_id)
_TO_RECEIPT = attempts.join(receipts, receipts.c.attempt_id == attempts.c.id, isouter=True)
_TO_ATTEMPT = receipts.join(attempts, attempts.c.id == receipts.c.attempt_id, isouter=True)
_TO_OUTBOX = receipts.join(outbox, outbox.c.receipt_id == receipts.c.id, isouter=True)
_IS_ITS_END = (attempts.c.state == "closed") & (attempts.c.outcome == receipts.c.outcome)
_DISAGREEMENTS: list[tuple[str, str, Select[Any]]] = [
    (
        "question-pending",
        "a run that ended has a question without a result",
        select(questions.c.run_id).select_from(_IN_RUN).where(_ENDED, questions.c.state == "pending"),
    ),
    (
        "attempt-open",
        "a run that ended has an attempt that did not",
        select(attempts.c.id).select_from(_OF_RUN).where(_ENDED, attempts.c.state == "open"),
    ),
    (
        "attempt-draft",
        "an attempt is open without a draft, or closed with one",
        select(attempts.c.id).where((attempts.c.state == "open") != attempts.c.draft.is_not(None)),
    ),
    (
        "receipt-missing",
        "an attempt ended without a receipt",
        select(attempts.c.id).select_from(_TO_RECEIPT).where(attempts.c.state == "closed", receipts.c.id.is_(None)),
    ),
    (
        "receipt-attempt",
        "a receipt is not the end of its attempt",
        select(receipts.c.id).select_from(_TO_ATTEMPT).where(attempts.c.id.is_(None) | ~_IS_ITS_END),
    ),
    (
        "outbox-missing",
        "a receipt has no row in the outbox",
        select(receipts.c.id).select_from(_TO_OUTBOX).where(outbox.c.receipt_id.is_(None)),
    ),
]


def _blobs(storage: Storage) -> Iterator[Finding]:
    """Every receipt's request, stream and media are there, save media that retention gave up."""
    present: dict[Digest, bool] = {}
    retired = retired_receipts(storage.ledger)
    for each in receipt_references(storage.ledger):
        for digest, kind in sorted(each.blobs):
            if kind.is_media and each.receipt in retired:
                continue
            if digest not in present:
                present[digest] = storage.blobs.exists(digest)
            if not present[digest]:
                yield Finding("blob-missing", f"receipt {each.receipt} names a {kind.value} that is gone", str(digest))


def _dead_runs(storage: Storage) -> Iterator[Finding]:
    for run in storage.runs.list(state=RunState.RUNNING, limit=2**31):
        if liveness(run.process, storage.ledger.host) is Liveness.DEAD:
            yield Finding("run-dead", f"run {run.id} is open, and its process is gone")


def _leases(storage: Storage, now: float) -> Iterator[Finding]:
    for lease in storage.staging.active():
        if lease.expired(now):
            yield Finding("lease-overdue", f"lease {lease.id} of {lease.holder} has expired", str(lease.digest))
        elif liveness(lease.process, storage.staging.host) is Liveness.DEAD:
            yield Finding("lease-orphaned", f"the process of {lease.holder} is gone", str(lease.digest))


def _staged(storage: Storage, now: float, read: bool) -> Iterator[Finding]:
    """Each staged file under its lock: leases ↔ copies' rows ↔ files ↔ bytes."""
    names = dict(_rows_of_copies(storage)) | _names_of_files(storage)
    for path, digest in sorted(names.items()):
        with storage.staging.path_lock(digest):
            yield from _staged_file(storage, now, path, digest, read)


def _rows_of_copies(storage: Storage, *only: ColumnElement[bool]) -> list[tuple[Path, Digest]]:
    query = select(copies.c.tenant, copies.c.staged_name, copies.c.digest)
    with storage.leases.read() as tx:
        rows = tx.execute(query.where(copies.c.host == storage.staging.host, *only)).all()
    return [(storage.staging.path(row.tenant, row.staged_name), Digest.parse(row.digest)) for row in rows]


def _names_of_files(storage: Storage) -> dict[Path, Digest]:
    found = {}
    for path in storage.staging.root.rglob("*"):
        with suppress(InputError):  # not a staged file's name
            found[path] = Digest(path.name.partition(".")[0])
    return found


def _staged_file(storage: Storage, now: float, path: Path, digest: Digest, read: bool) -> Iterator[Finding]:
    name = f"{path.parent.name}/{path.name[:12]}…"
    is_known = (path, digest) in _rows_of_copies(storage, copies.c.digest == str(digest))
    is_held = any(
        storage.staging.path(lease.tenant, lease.staged_name) == path
        and not lease.expired(now)
        and liveness(lease.process, storage.staging.host) is not Liveness.DEAD
        for lease in storage.staging.active()
        if lease.digest == digest
    )
    is_there = path.exists()
    if is_held and not is_there:
        yield Finding("staged-missing", f"a live lease names {name}, which is gone", str(digest))
    elif is_known and not is_there:
        yield Finding("staged-row", f"a row names {name}, which is gone", str(digest))
    elif is_there and not is_known:
        yield Finding("staged-unknown", f"no row names {name}", str(digest))
    if is_held and not is_known:
        yield Finding("staged-lease", f"a live lease names {name}, and no row does", str(digest))
    if is_there and read and Digest.of(path.read_bytes()) != digest:
        yield Finding("staged-digest", f"{name} has other bytes than its name says", str(digest))


def _left_over(storage: Storage, now: float) -> Iterator[Finding]:
    """Quarantine of runs that do not run, and half-written files of dead writers."""
    folders = sorted(storage.quarantine.iterdir()) if storage.quarantine.is_dir() else []
    states = storage.runs.states([path.name for path in folders])
    for path in folders:
        with suppress(FileNotFoundError):  # its run ended meanwhile
            if is_left_over(path, states.get(path.name), now):
                yield Finding("left-over", f"quarantine of {path.name}, which does not run")
    home = storage.quarantine.parent
    for folder in (*home.glob(f"{BLOBS}/*"), storage.staging.root, *storage.staging.root.glob("*")):
        yield from (Finding("left-over", f"{path.name}, whose writer is dead") for path in abandoned(folder))
