"""Bytes into a descriptor of the caller's, whose position does not move."""

from __future__ import annotations

import os

from storage.disk_errors import disk_errors


def write_at(into: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`. Raises StorageError (`disk-full`, `disk`)."""
    view = memoryview(data)
    with disk_errors(f"write to quarantine at byte {offset}"):
        while view:
            written = os.pwrite(into, view, offset)
            view, offset = view[written:], offset + written
