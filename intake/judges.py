"""What judges a medium. Another library or another rule may judge the same bytes differently, so what is kept of an
inspection is found again by these or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from contracts.digest import Digest, canonical_digest

_LIBRARIES = ("pillow", "simplejpeg", "pi-heif", "soundfile", "av", "pylibmagic")
_ROOT = Path(__file__).resolve().parents[1]
SOURCES = (*_ROOT.glob("intake/children/*.py"), _ROOT / "contracts" / "signatures.py")
"""Our own rules. They change more often than the product's version does."""


@cache
def judges() -> dict[str, str]:
    """The libraries by version, and our own rules by the digest of their source."""
    return {name: metadata.version(name) for name in _LIBRARIES} | {"rules": str(source_digest(SOURCES))}


def source_digest(sources: Iterable[Path]) -> Digest:
    """The identity of source files, by name and content."""
    return canonical_digest({path.name: str(Digest.of(path.read_bytes())) for path in sources})
