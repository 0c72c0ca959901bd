"""The page about media says what the decoders do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_media_page_is_what_the_code_renders() -> None:
    """docs/media.md is not stale: python docs/render_media.py > docs/media.md"""
    rendered = subprocess.run([sys.executable, ROOT / "docs" / "render_media.py"], capture_output=True, check=True)
    assert rendered.stdout.decode() == (ROOT / "docs" / "media.md").read_text("utf-8")
