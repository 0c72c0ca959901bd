"""Answer streams for tests, built chunk by chunk in the engine's field order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from contracts.completion import Completion, check_stream
from contracts.limits import Limits
from contracts.profile import profile

ROUTE = "/srv/mosaic-models/" + "2" * 64
USAGE = {"completion_tokens": 3, "prompt_tokens": 5, "total_tokens": 8, "avg_tok_per_sec": 4.5}
DONE = b"data: [DONE]\n\n"


def event(data: str) -> bytes:
    """One default event."""
    return b"data: " + data.encode() + b"\n\n"


def chunk(text: str | None = "a", **changes: Any) -> bytes:
    """A chunk. `finish`, `usage`, `role`, `delta`, `choice` and top-level keys replace what an engine sends."""
    delta = {"content": text, "role": changes.pop("role", "assistant"), "tool_calls": None, **changes.pop("delta", {})}
    choice = {"finish_reason": changes.pop("finish", None), "index": 0, "delta": delta, "logprobs": None}
    choice |= changes.pop("choice", {})
    document = {
        "id": "1",
        "choices": [choice],
        "created": 1780322518,
        "model": ROUTE,
        "system_fingerprint": "local",
        "object": "chat.completion.chunk",
        "usage": None,
    }
    return event(json.dumps(document | changes, separators=(",", ":"), ensure_ascii=False))


def last(text: str | None = "", **changes: Any) -> bytes:
    """A last chunk: finish `stop` and usage."""
    return chunk(text, **({"finish": "stop", "usage": USAGE} | changes))


GOOD = chunk("Blue") + chunk(" then") + last(" red") + DONE


def verdict(*parts: bytes, limits: Limits | None = None, version: str = "0.8.17", max_tokens: int = 64) -> Completion:
    """The machine's verdict on the parts, fed one by one."""
    return check_stream(parts, profile=profile(version), route=ROUTE, max_tokens=max_tokens, limits=limits or Limits())


@st.composite
def partitions(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """`data` cut at random places, some parts empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=24)))
    return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]
