"""Where a part's bytes come from: each kind of source, behind one record."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from contracts.bundle import MediaSource
from contracts.errors import InputError
from contracts.locator import BlobSource, FileSource, S3Source, UrlSource
from contracts.records import AcquisitionRecord
from intake.local_files import acquire_local
from pipeline.steps import in_thread
from pipeline.workshop import Workshop
from storage.blob_sources import BlobSources


async def acquire(
    shop: Workshop, source: MediaSource, *, folder: Path | None, max_bytes: int, file: BinaryIO
) -> AcquisitionRecord:
    """Have the bytes of `source`, at most `max_bytes`, in the empty `file`; a file's path is beneath `folder`.
    A bundle without a folder names no files.

    What the source itself refused or could not give is a record with a failure.
    """
    into = file.fileno()
    match source.source:
        case UrlSource():
            return await shop.fetch(source.location, max_bytes=max_bytes, into=into)
        case FileSource(path):
            if folder is None:
                raise InputError("bundle-no-folder", f"{path}: this bundle is in no folder")
            return await in_thread(acquire_local, folder, path, max_bytes, into)
        case S3Source() as named:
            return await shop.objects.acquire(named, max_bytes=max_bytes, into=into, expected=source.sha256)
        case BlobSource(digest):
            blobs, tenant = BlobSources(shop.storage.blobs, shop.storage.ledger), shop.settings.tenant
            return await in_thread(blobs.acquire, digest, tenant=tenant, max_bytes=max_bytes, into=into)
