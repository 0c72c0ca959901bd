"""Quarantine files: usable, and never visible."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import StorageError
from intake.quarantine import open_quarantine


def test_a_quarantine_file_has_no_name(tmp_path: Path) -> None:
    """It can be written and read, and the directory stays empty all the while."""
    directory = tmp_path / "state" / "quarantine"
    with open_quarantine(directory) as file:
        file.write(b"x")
        file.seek(0)
        assert file.read() == b"x"
        assert list(directory.iterdir()) == []
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_be_is_our_error(tmp_path: Path) -> None:
    """A directory that cannot be made is a StorageError, not the library's."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="quarantine"):
        open_quarantine(tmp_path / "file" / "below")
