"""A child's datagram is believed only in the one form it may have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import ChildFailed
from intake.decoder_wire import REPLY_BYTES, Reply, parse_reply

GOOD: dict[str, Any] = {"media_type": "image/png", "findings": {"width": 3, "format": "png"}}
LIES = {
    "no JSON": b"\xff\x00",
    "nesting": b"[" * 10_000,
    "a list": b"[]",
    "nothing": b"{}",
    "too long": b'{"rule":"' + b"a" * REPLY_BYTES + b'"}',
    "a float": json.dumps({**GOOD, "findings": {"fps": 29.97}}).encode(),
    "an object as a fact": json.dumps({**GOOD, "findings": {"a": {}}}).encode(),
    "a huge number": json.dumps({**GOOD, "findings": {"a": 2**60}}).encode(),
    "control characters": json.dumps({"rule": "x", "reason": "a\u001b[2J"}).encode(),
    "too many facts": json.dumps({**GOOD, "findings": {str(n): n for n in range(40)}}).encode(),
    "a derivative without a size": json.dumps({**GOOD, "transformation": {"name": "x"}}).encode(),
    "a derivative of 1 TiB": json.dumps({**GOOD, "transformation": {}, "derivative_bytes": 2**40}).encode(),
    "a rule that is a number": b'{"rule":1,"reason":"x"}',
}


def test_a_verdict_is_read() -> None:
    """Acceptance and refusal have one form each."""
    assert parse_reply(json.dumps(GOOD).encode()) == Reply(media_type="image/png", findings=GOOD["findings"])
    assert parse_reply(b'{"rule":"frame-side","reason":"3 x 4"}') == Reply(rule="frame-side", reason="3 x 4")


@pytest.mark.parametrize("name", LIES)
def test_a_lie_breaks_the_protocol(name: str) -> None:
    """Whatever a taken-over child sends, it cannot put other values into a receipt."""
    with pytest.raises(ChildFailed, match="decoder-protocol"):
        parse_reply(LIES[name])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_a_broken_protocol(data: bytes) -> None:
    """No datagram makes the parent fail in another way."""
    try:
        reply = parse_reply(data)
    except ChildFailed:
        return
    assert reply.rule is not None or reply.media_type
