"""The releases' page and words: every field is explained once, in the code, the schema and the page alike."""

from __future__ import annotations

from pathlib import Path

from contracts.release_document import SECTIONS
from contracts.release_words import FIELD_WORDS, field_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "releases.md"
_MAY_STAND_ALONE = {"build.wheel", "model.quantisation", "model.topology", "launch", "kv.paged_attention"} | {
    *("derivatives", "derivatives.image", "derivatives.audio", "derivatives.video"),
}


def test_every_field_is_explained() -> None:
    """A key that is read is a key that is explained, and no other; sections too where something else may stand."""
    fields = {".".join((*where, name)) for where, section in SECTIONS.items() for name in section.__struct_fields__}
    sections = {".".join(where) for where in SECTIONS} - _MAY_STAND_ALONE
    assert set(FIELD_WORDS) == fields - sections


def test_the_page_is_not_stale() -> None:
    """docs/releases.md ends with what python -m contracts.release_words prints."""
    assert PAGE.read_text("utf-8").endswith(f"\n\n{field_table()}")
