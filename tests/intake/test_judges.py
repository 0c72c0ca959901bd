"""What was found of a medium is found again only by who found it."""

from __future__ import annotations

import sys
from pathlib import Path

from intake.children import decode
from intake.judges import SOURCES, judges, source_digest


def test_every_module_that_judges_counts() -> None:
    """All that a decoder has loaded of ours beneath its folder, and the table of signatures."""
    loaded = {
        Path(module.__file__)
        for name, module in list(sys.modules.items())
        if name.startswith("intake.children.") and module.__file__
    }
    assert Path(decode.__file__) in loaded
    assert loaded <= set(SOURCES)
    assert {path.name for path in SOURCES} >= {"signatures.py", "jpeg_scans.py"}


def test_another_rule_is_another_judge(tmp_path: Path) -> None:
    """One character changed in one file, or a file more, and nothing that was kept is found."""
    copies = [tmp_path / path.name for path in SOURCES]
    for path, copy in zip(SOURCES, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    assert str(source_digest(copies)) == judges()["rules"]
    copies[0].write_bytes(copies[0].read_bytes() + b" ")
    changed = source_digest(copies)
    assert str(changed) != judges()["rules"]
    assert source_digest([*copies, Path(__file__)]) != changed
