"""A child's datagram is believed only in the one form it may have."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.derivation import Derivation
from contracts.derivation_spec import parse_derivation
from contracts.errors import ChildFailed
from contracts.records import Derivative
from intake.decoder_wire import REPLY_BYTES, Reply, parse_reply, read_derivative
from tests import media_samples as samples

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


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_a_broken_protocol(data: bytes) -> None:
    """No datagram makes the parent fail in another way."""
    try:
        reply = parse_reply(data)
    except ChildFailed:
        return
    assert reply.rule is not None or reply.media_type


def derivative_said(said: dict[str, Any], data: bytes, asked: Derivation | None) -> Derivative | None:
    """What the parent makes of a child's word and its memory file."""
    reply = parse_reply(json.dumps({**GOOD, "transformation": said, "derivative_bytes": 40}).encode())
    output = os.memfd_create("derivative")
    try:
        os.write(output, data)
        return read_derivative(reply, output, asked)
    finally:
        os.close(output)


def test_a_derivative_is_believed_as_far_as_it_is_what_was_asked_for() -> None:
    """Its signature is the recipe's type, its length the one announced, its transformation the recipe."""
    asked = parse_derivation("image:format=png")
    png, said = samples.encode(samples.picture(), "PNG"), {**asked.fixed(), "width": 9}
    made = derivative_said(said, png, asked)
    assert made is not None
    assert (made.data, made.media_type, made.transformation) == (png[:40], "image/png", said)


@pytest.mark.parametrize(
    ("data", "changes", "spec"),
    [
        pytest.param(b"\xff\xd8\xff\xe0" + bytes(60), {}, "image:format=png", id="another type"),
        pytest.param(b"\x89PNG\r\n\x1a\n", {}, "image:format=png", id="fewer bytes"),
        pytest.param(None, {"max_side_px": 99_999}, "image:format=png", id="another bound"),
        pytest.param(None, {"name": "frames-to-gif"}, "image:format=png", id="another recipe"),
        pytest.param(None, {}, None, id="not asked for"),
    ],
)
def test_a_derivative_that_was_not_asked_for_breaks_the_protocol(
    data: bytes | None, changes: dict[str, Any], spec: str | None
) -> None:
    """A child that was taken over can put no other file and no other recipe into a receipt."""
    asked = None if spec is None else parse_derivation(spec)
    said = parse_derivation("image:format=png").fixed() | changes
    with pytest.raises(ChildFailed, match="decoder-protocol"):
        derivative_said(said, data or samples.encode(samples.picture(), "PNG"), asked)
