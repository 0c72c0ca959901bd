"""What was found in which bytes: a second sight of the same bytes, under the same limits, costs no decode."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest, wire_json
from storage.database import Database, upsert
from storage.schema import inspection as inspections


@dataclass(frozen=True, slots=True)
class InspectionKey:
    """What a finding depends on. `derivation` names what was asked for and who judged."""

    digest: Digest
    modality: Modality
    derivation: str
    limits_digest: Digest


@dataclass(frozen=True, slots=True)
class CachedInspection:
    """An accepted medium. `derivative` is in the store like the original; `transformation` says how it was made."""

    artifact: Artifact
    findings: dict[str, Any] = field(hash=False)
    layers: tuple[str, ...]
    derivative: Artifact | None = None
    transformation: dict[str, Any] | None = field(default=None, hash=False)


class Inspections:
    """The ledger's inspections. Raises StorageError where the ledger fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: InspectionKey) -> CachedInspection | None:
        """What was found before, or None. That the blobs are still in the store is for the caller to see."""
        columns = inspections.c
        query = select(columns.document).where(
            columns.digest == str(key.digest),
            columns.modality == key.modality.value,
            columns.derivation == key.derivation,
            columns.limits_digest == str(key.limits_digest),
        )
        with self._database.read() as tx:
            document = tx.execute(query).scalar()
        return None if document is None else _parse(json.loads(document))

    def record(self, key: InspectionKey, found: CachedInspection, now: float) -> None:
        """Write what was found; the same again changes nothing."""
        document = {
            "artifact": found.artifact.to_json(),
            "findings": found.findings,
            "layers": list(found.layers),
            "derivative": None if found.derivative is None else found.derivative.to_json(),
            "transformation": found.transformation,
        }
        row = {
            "digest": str(key.digest),
            "modality": key.modality.value,
            "derivation": key.derivation,
            "limits_digest": str(key.limits_digest),
            "document": wire_json(document).decode(),
            "created_at": now,
        }
        with self._database.write() as tx:
            tx.execute(upsert(tx, inspections).values(**row).on_conflict_do_nothing())


def _parse(document: dict[str, Any]) -> CachedInspection:
    derivative = document["derivative"]
    return CachedInspection(
        artifact=_artifact(document["artifact"]),
        findings=document["findings"],
        layers=tuple(document["layers"]),
        derivative=None if derivative is None else _artifact(derivative),
        transformation=document["transformation"],
    )


def _artifact(document: dict[str, Any]) -> Artifact:
    return Artifact(
        Digest.parse(document["digest"]),
        document["size_bytes"],
        document["media_type"],
        Modality(document["modality"]),
    )
