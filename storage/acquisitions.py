"""The ledger's acquisitions: every record of a source that was asked for, had or refused.

They are written with the attempt that they are of, in its transaction. What failed for a reason that lasts is found
again by the next run of the same bundle.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from contracts.digest import Digest, wire_json
from contracts.lasting_failures import lasts
from contracts.records import AcquisitionRecord, Failure
from contracts.version import VERSION
from storage.database import Database
from storage.schema import acquisition as acquisitions

_THIS_VERSION = f"mosaic-evidence/{VERSION} "  # how intake.fetcher.FETCHER begins


@dataclass(frozen=True, slots=True)
class FetchKey:
    """What a fetch's end depends on beside the moment: whose it is, which bundle asked, for what, under which policy
    and limits, and with which cap (bytes)."""

    tenant: str
    bundle_digest: Digest
    requested_digest: Digest
    policy_digest: Digest
    limits_digest: Digest
    max_bytes: int


@dataclass(frozen=True, slots=True)
class PartAcquisition:
    """One part's acquisition. `asked` says that the source itself was asked, not the memory of another acquisition.

    `record.digest` of a failed acquisition is not what was wanted, or is not in the store.
    """

    part_index: int
    max_bytes: int
    record: AcquisitionRecord
    asked: bool


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What the acquisitions of one attempt share."""

    attempt: str
    run: str
    question_id: str
    tenant: str
    bundle_digest: Digest
    limits_digest: Digest


@dataclass(frozen=True, slots=True)
class Remembered:
    """A failure that lasts, and the run that met it."""

    run: str
    failure: Failure


class Acquisitions:
    """The ledger's acquisitions. Raises StorageError where the ledger fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def has_lasting(self, tenant: str, bundle_digest: Digest) -> bool:
        """Whether any failure that lasts is known of a bundle: one look that spares a run a look for each part."""
        columns = acquisitions.c
        query = select(columns.position).where(*_of(tenant, bundle_digest), columns.lasts.is_(True)).limit(1)
        with self._database.read() as tx:
            return tx.execute(query).first() is not None

    def remembered(self, key: FetchKey) -> Remembered | None:
        """How the same fetch ended when its source was last asked, if that was a failure that lasts.

        What another version of ours met is not: this one may read URLs or answers that the other refused.
        """
        columns = acquisitions.c
        query = (
            select(columns.run_id, columns.lasts, columns.document)
            .where(
                *_of(key.tenant, key.bundle_digest),
                columns.lasts.in_([False, True]),
                columns.requested_digest == str(key.requested_digest),
                columns.policy_digest == str(key.policy_digest),
                columns.limits_digest == str(key.limits_digest),
                columns.max_bytes == key.max_bytes,
                columns.asked.is_(True),
            )
            .order_by(columns.position.desc())
            .limit(1)
        )
        with self._database.read() as tx:
            row = tx.execute(query).first()
        if row is None or not row.lasts:
            return None
        document = json.loads(row.document)
        if document["fetcher"] is not None and not document["fetcher"].startswith(_THIS_VERSION):
            return None
        return Remembered(row.run_id, _failure(document))

    def of_run(self, run: str, *, tenant: str) -> list[dict[str, Any]]:
        """The records of a run, oldest first, each with its `question_id` and `part_index`."""
        columns = acquisitions.c
        query: Select[Any] = select(columns.question_id, columns.part_index, columns.document)
        query = query.where(columns.run_id == run, columns.tenant == tenant).order_by(columns.position)
        with self._database.read() as tx:
            rows = tx.execute(query).all()
        return [{"question_id": row[0], "part_index": row[1], **json.loads(row[2])} for row in rows]


def append_acquisitions(tx: Connection, facts: AttemptFacts, parts: Sequence[PartAcquisition], now: float) -> None:
    """Write the acquisitions of an attempt, whose row is there, within the caller's transaction."""
    if parts:
        tx.execute(insert(acquisitions), [_row(facts, part, now) for part in parts])


def _row(facts: AttemptFacts, part: PartAcquisition, now: float) -> dict[str, Any]:
    record = part.record
    return {
        "attempt_id": facts.attempt,
        "run_id": facts.run,
        "question_id": facts.question_id,
        "part_index": part.part_index,
        "tenant": facts.tenant,
        "bundle_digest": str(facts.bundle_digest),
        "source": record.source,
        "requested_digest": str(record.requested_digest),
        "policy_digest": None if record.policy_digest is None else str(record.policy_digest),
        "limits_digest": str(facts.limits_digest),
        "max_bytes": part.max_bytes,
        "rule": None if record.failure is None else record.failure.rule,
        "digest": None if record.digest is None else str(record.digest),
        "asked": part.asked,
        "lasts": part.asked and lasts(record),
        "document": wire_json(record.to_json()).decode(),
        "created_at": now,
    }


def _of(tenant: str, bundle_digest: Digest) -> tuple[Any, ...]:
    return acquisitions.c.tenant == tenant, acquisitions.c.bundle_digest == str(bundle_digest)


def _failure(document: dict[str, Any]) -> Failure:
    failure = document["failure"]
    return Failure(failure["error"], failure["rule"], failure["reason"])
