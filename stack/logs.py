"""Logs of bounded size: programs append to their files, and a file that has grown too long is moved aside in place."""

from __future__ import annotations

import shutil
from pathlib import Path

LOG_BYTES = 8 * 1024 * 1024  # of each file, and as much again of what was before


def keep_bounded(folder: Path, log_bytes: int = LOG_BYTES) -> None:
    """Copy each log over `log_bytes` to `NAME.1` and empty it. Its writers append, so they go on at its beginning;
    what they write between the copy and the emptying is lost."""
    for log in folder.glob("*.log"):
        if log.stat().st_size > log_bytes:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            with log.open("r+b") as file:
                file.truncate()
