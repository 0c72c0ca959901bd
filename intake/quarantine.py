"""Where bytes of unknown worth wait: files without a name, so that nothing is left behind by any death."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from contracts.errors import StorageError


def open_quarantine(directory: Path) -> BinaryIO:
    """Open an empty, unnamed file in `directory` (made if missing) for reading and writing.

    O_TMPFILE where the file system has it (open(2)); elsewhere a file that is unlinked at once. Raises StorageError
    `quarantine` if neither can be had.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cast("BinaryIO", tempfile.TemporaryFile(dir=directory))
    except OSError as error:
        raise StorageError("quarantine", f"cannot open a file (errno {error.errno})") from error
