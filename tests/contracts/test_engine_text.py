"""What is shown of an engine's own words: little, on one line, and nothing that names a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.engine_text import MAX_SHOWN, shown

MASKED = {
    "cannot read /srv/a/b.png: missing": "cannot read <path>: missing",
    'open "/etc" failed': 'open "<path>" failed',
    "at ~/models/x and C:\\models\\x": "at <path> and <path>",
    "GET https://h.example/a?token=1 failed": "GET <url> failed",
    "file:///srv/mosaic-evidence/a.png is refused": "<url> is refused",
    "bad data:image/png;base64,iVBORw0KGgo= here": "bad <url> here",
    "digest " + "ab" * 32 + " differs": "digest <opaque> differs",
    "two\nlines\x1b[31m\u2028and more": "two lines [31m and more",
    "a/b tokens, 3/4 done": "a/b tokens, 3/4 done",
    "no /srv/a:b/c.png: missing": "no <path>: missing",
    "no /srv/a,b;c.png, missing": "no <path>, missing",
    "no \u00e9/etc/x, ~me/.ssh/id or models/t/a.png": "no <path>, <path> or <path>",
    "no C:/a/b, \\\\host\\share\\c or </srv/x>": "no <path>, <path> or <<path>>",
    "no '/srv/my own/c.png' here": "no '<path>' here",
    "Authorization: Bearer abc, HF_TOKEN=hf_a1": "Authorization: <secret> <secret>",
    "bad DATA:IMAGE/PNG;BASE64,AAAA or data:,Hello": "bad <url> or <url>",
    "<title>Bad gateway</title>": "<title>Bad gateway</title>",
    "a\u202eb\u200bc": "a b c",
    "Prompt sequence length is greater than 8192": "Prompt sequence length is greater than 8192",
}


@pytest.mark.parametrize(("text", "told"), MASKED.items(), ids=MASKED.values())
def test_places_and_payloads_are_masked(text: str, told: str) -> None:
    """Paths, URLs, inline data and long tokens; ordinary words stay."""
    assert shown(text) == told


@given(st.text(max_size=6_000))
def test_any_text_becomes_one_bounded_line(text: str) -> None:
    """No control characters, and never longer than allowed."""
    line = shown(text)
    assert len(line) <= MAX_SHOWN
    assert len(line.splitlines()) <= 1
    assert "\x1b" not in line
