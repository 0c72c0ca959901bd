"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path

from contracts.errors import InputError


def regular_file(path: Path) -> Path:
    """`path`, if it is a file that ends: reading a pipe or a device could wait forever. Raises InputError."""
    if not path.is_file():
        raise InputError("not-a-regular-file", f"expected a regular file, got {str(path)!r}")
    return path


def regular_files(paths: list[Path]) -> list[Path]:
    """`regular_file` for each."""
    return [regular_file(path) for path in paths]
