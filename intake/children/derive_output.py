"""Where a derivative goes: a memory file of the parent's, written as it is made and never beyond its bound."""

from __future__ import annotations

import os

from contracts.errors import MediaRejected


class Output:
    """Counts what is written; the parent reads that many bytes and believes none of them."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def append(self, data: bytes) -> None:
        """Write at the end. Raises MediaRejected `derivative-bytes` before the bound is passed."""
        if self.size_bytes + len(data) > self._max_bytes:
            reason = f"more than {self._max_bytes} bytes, the bound of a derivative"
            raise MediaRejected("derivative-bytes", reason)
        self._write(data, self.size_bytes)
        self.size_bytes += len(data)

    def overwrite(self, data: bytes) -> None:
        """Write at the beginning, over what is there."""
        self._write(data, 0)

    def _write(self, data: bytes, place: int) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], place + written)
