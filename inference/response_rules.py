"""What a worker's response head must be before a byte of its stream is looked at. Pure.

The checks, in order: 1. number of headers, 2. their bytes, 3. one content type, `text/event-stream`, 4. no content
coding, 5. one framing, 6. the request id, where the profile says that the engine echoes it.
"""

from __future__ import annotations

import re

import msgspec

from contracts.engine_text import shown
from contracts.errors import StreamViolation
from contracts.limits import Limits
from contracts.profile import Profile
from inference.http_head import Head

ERROR_BYTES = 4 << 10
"""How much of an error's body is read."""

REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""What a request id may be: visible ASCII, so that it is one header value."""

_FRAMING_BYTES = 4  # ": " and CRLF


class _Message(msgspec.Struct):
    message: str


def check_head(head: Head, profile: Profile, limits: Limits, request_id: str) -> None:
    """Raise StreamViolation for a head that cannot begin an answer stream: `response-headers`,
    `response-header-bytes`, `content-type`, `content-encoding`, `framing-ambiguous`, `request-id-echo`."""
    raw = head.headers
    if len(raw) > limits.response_headers:
        raise StreamViolation("response-headers", f"expected at most {limits.response_headers}, got {len(raw)}")
    size = sum(len(name) + len(value) + _FRAMING_BYTES for name, value in raw)
    if size > limits.response_header_bytes:
        raise StreamViolation("response-header-bytes", f"expected at most {limits.response_header_bytes}, got {size}")
    types = head.values("content-type")
    if len(types) != 1 or types[0].partition(";")[0].strip().lower() != "text/event-stream":
        got = shown(types[0]) if len(types) == 1 else f"{len(types)} of them"
        raise StreamViolation("content-type", f"expected one text/event-stream, got {got}")
    if head.values("content-encoding") not in ([], ["identity"]):
        raise StreamViolation("content-encoding", "expected none, which is what was asked for")
    if head.values("content-length") and head.values("transfer-encoding"):
        raise StreamViolation("framing-ambiguous", "a length and a transfer coding: two ends of one body")
    if profile.request_id_echo:
        echoed = head.values("x-request-id")
        if echoed != [request_id]:
            raise StreamViolation("request-id-echo", f"expected the request's id once, got {len(echoed)} other")


def echo_of(head: Head) -> str | None:
    """The request id that the worker said, if it said one."""
    given = head.values("x-request-id")
    return given[0] if len(given) == 1 and REQUEST_ID.fullmatch(given[0]) else None


def error_text(body: bytes, head: Head) -> str:
    """What an error's body says, bounded and masked: its `message`, or the text itself."""
    if any(value.partition(";")[0].strip().lower() == "application/json" for value in head.values("content-type")):
        try:
            return shown(msgspec.json.decode(body, type=_Message).message)
        except (msgspec.MsgspecError, RecursionError):
            return f"{len(body)} bytes of JSON without a message"
    return shown(body.decode(errors="replace")) or "no text"
