"""Where a part's bytes come from: each kind of source, behind one record."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from contracts.bundle import MediaSource
from contracts.records import AcquisitionRecord
from intake.local_files import acquire_local
from pipeline.steps import in_thread
from pipeline.workshop import Workshop


async def acquire(
    shop: Workshop, source: MediaSource, *, folder: Path, max_bytes: int, file: BinaryIO
) -> AcquisitionRecord:
    """Have the bytes of `source`, at most `max_bytes`, in the empty `file`; a file's path is beneath `folder`.

    What the source itself refused or could not give is a record with a failure.
    """
    if not source.is_url:
        return await in_thread(acquire_local, folder, source.location, max_bytes, file.fileno())
    return await shop.fetch(source.location, max_bytes=max_bytes, into=file.fileno())
