"""The event-stream format, case by case from the standard (tests/vectors/sse), in every partition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.limits import Limits
from contracts.sse import Event, stream_events
from tests.contracts.wire_chunks import partitions

_FILE = Path(__file__).parent.parent / "vectors" / "sse" / "format.jsonl"
CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in map(json.loads, _FILE.read_text("utf-8").splitlines())
}
_SIZES = [1, 4_096, 65_535, 65_536, 65_537, 1_000_000]


def _seen(parts: list[bytes]) -> tuple[list[Event], str | None]:
    events, violation = stream_events(parts)
    return events, violation.split(":")[0] if violation else None


def _bytewise(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=30)
@given(draw=st.data())
def test_each_case_of_the_format_is_read_as_the_standard_says(name: str, draw: st.DataObject) -> None:
    """Whole, byte by byte, and in random partitions: the same events, the same error."""
    case = CASES[name]
    data = case["stream"].encode("latin-1")
    expected = [tuple(event) for event in case["events"]], case.get("violation")
    for parts in ([data], _bytewise(data), draw.draw(partitions(data))):
        assert _seen(parts) == expected


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_big_lines_are_read_as_small_ones(size: int, end: str) -> None:
    """A line up to its bound is data, over the seams of reads of any size, beside small events."""
    text = "ä" + "x" * (size - 1)
    data = f"data: a{end}{end}data: {text}{end}data{end}{end}data: b{end}{end}".encode()
    expected = [("message", "a"), ("message", text + "\n"), ("message", "b")]
    for read in (len(data), 65_536, 1_448):
        assert stream_events(data[start : start + read] for start in range(0, len(data), read)) == (expected, None)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_a_line_over_its_bound_is_refused_with_any_line_end(end: bytes) -> None:
    """One byte more than the bound, whole and in reads."""
    bound = Limits().stream_line_bytes
    data = b"data: a" + end * 2 + b"data: " + b"x" * (bound - 5) + end * 2
    for read in (len(data), 65_536):
        assert _seen([data[start : start + read] for start in range(0, len(data), read)]) == (
            [("message", "a")],
            "line-bytes",
        )
