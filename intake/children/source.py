"""The input as decoders see it: readable, seekable, and without a name that anything could be inferred from."""

from __future__ import annotations

import io
import os
from typing import Any


class SealedInput(io.RawIOBase):
    """Reads a sealed memory file by descriptor. The position is ours, so the descriptor's own is never moved."""

    def __init__(self, descriptor: int, end: int | None) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._position = 0
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)  # no stat call is left to a confined process
        self.size_bytes = size_bytes if end is None else min(end, size_bytes)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        left = max(self.size_bytes - self._position, 0)
        data = os.pread(self._descriptor, min(len(buffer), left), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size_bytes}[whence]
        if base + offset < 0:
            raise ValueError("seek before the beginning")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position


class Source(io.BufferedReader):
    """A buffered, nameless input of `size_bytes` bytes, those before `end`. Closing it leaves the descriptor open."""

    def __init__(self, descriptor: int, end: int | None = None) -> None:
        raw = SealedInput(descriptor, end)
        super().__init__(raw, 1 << 16)
        self.size_bytes = raw.size_bytes
        self._descriptor = descriptor

    def until(self, end: int) -> Source:
        """The same input, ending at `end`."""
        return Source(self._descriptor, end)

    def at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`."""
        self.seek(offset)
        return self.read(length)

    @property
    def at_end(self) -> bool:
        """Whether a decoder has asked for everything there is."""
        return self.tell() >= self.size_bytes


def refuse_to_open(*_: object) -> Any:
    """An `io_open` for FFmpeg that opens nothing, whatever a file asks it to open."""
    raise PermissionError("a medium may not open another resource")
