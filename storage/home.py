"""The storage of one MOSAIC_HOME, opened: which folder holds what, and the parts wired together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.ports import BlobBackend
from settings.secret import Secret
from settings.values import Settings
from storage.acquisitions import Acquisitions
from storage.blobs_of_settings import blobs_of, staging_form_of
from storage.database import Database
from storage.databases import open_databases
from storage.disk_blobs import DiskBlobStore
from storage.inspections import Inspections
from storage.receipts import Receipts
from storage.runs import Runs
from storage.staging import PLAIN, Staging, StagingForm

BLOBS, STAGING, QUARANTINE, LEDGER, LOCKS = "blobs", "staging", "quarantine", "ledger", "locks"


@dataclass(frozen=True, slots=True)
class Storage:
    """All parts of a host's storage. One per process; it does not survive a fork.

    `quarantine` is where a run keeps bytes that nobody has judged, in a folder named by the run's id that it makes
    after the run's row: reap removes every folder there whose run does not run.
    """

    blobs: BlobBackend
    staging: Staging
    runs: Runs
    receipts: Receipts
    inspections: Inspections
    acquisitions: Acquisitions
    ledger: Database
    leases: Database
    quarantine: Path

    def close(self) -> None:
        """Close the databases and the store's connections."""
        self.blobs.close()
        self.ledger.close()
        self.leases.close()


def storage_of(settings: Settings) -> Storage:
    """Open the storage that settings name. Raises StorageError, and InputError for settings that contradict."""
    databases = open_databases(settings.home / LEDGER, settings.database_url, settings.host)
    return _wired(settings.home, blobs_of(settings), *databases, staging_form_of(settings))


def open_storage(
    home: Path, blobs: BlobBackend | None = None, *, database_url: Secret | None = None, host: str | None = None
) -> Storage:
    """Open the storage under `home`, making what is missing; blobs are on its disk if none are given.

    Raises StorageError.
    """
    databases = open_databases(home / LEDGER, database_url, host)  # first: they refuse a disk before it is written
    return _wired(home, DiskBlobStore(home / BLOBS) if blobs is None else blobs, *databases)


def _wired(home: Path, blobs: BlobBackend, leases: Database, ledger: Database, form: StagingForm = PLAIN) -> Storage:
    return Storage(
        blobs=blobs,
        staging=Staging(home / STAGING, locks=home / LOCKS, blobs=blobs, database=leases, form=form),
        runs=Runs(ledger),
        receipts=Receipts(ledger, leases),
        inspections=Inspections(ledger),
        acquisitions=Acquisitions(ledger),
        ledger=ledger,
        leases=leases,
        quarantine=home / QUARANTINE,
    )
