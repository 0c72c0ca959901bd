"""One chat chunk of the answer stream: the JSON of one event, and the rules that hold within it.

Only the fields that rules read are declared; an engine may add others. What a chunk says about the chunks before it
is the completion machine's business (contracts/completion).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from contracts.engine_text import shown
from contracts.errors import EngineError, StreamViolation

OBJECT = "chat.completion.chunk"
ANSWERS = frozenset({"stop", "length"})
"""Finish reasons that end an answer. All others are violations, those below by a name of their own."""

MAX_EXACT_INT = 2**53 - 1
"""The largest integer that every JSON reader keeps (RFC 8259, section 6), so the largest that an identity may hold."""

_FOREIGN_FINISH = {"tool_calls": "tool-call", "function_call": "tool-call", "content_filter": "content-filter"}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the engine counted them. The end-of-answer token counts as one of the completion's."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    def to_json(self) -> dict[str, int]:
        """The form that receipts hold."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }


class Delta(msgspec.Struct, gc=False):
    """What a chunk adds. `content` is always there, null where a token adds no text: a chunk without it lost some."""

    content: str | None
    role: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of a chunk."""

    index: int
    delta: Delta
    finish_reason: str | None


class WireUsage(msgspec.Struct, gc=False):
    """The counts of the last chunk; engines add floats of their own."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Chunk(msgspec.Struct, gc=False):
    """The JSON of one event.

    `error` beside choices is what proxies make of an engine that failed midway. `adapter_generation` says that an
    adapter's weights answered (mistral.rs from 0.9.1), `session_id` that rounds of tools did; engines leave both out,
    or null, where the model alone did.
    """

    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: WireUsage | None = None
    error: Any = None
    adapter_generation: Any = None
    session_id: Any = None


_decode = msgspec.json.Decoder(Chunk).decode


def parse_chunk(data: bytes) -> Chunk:
    """Read an event's data, which is UTF-8, as a chunk.

    Raises EngineError for what is not JSON (`error-text`, or `bad-json` where it begins like an object or array) and
    StreamViolation for other JSON (`error-object`, `chunk-shape`, `json-depth`).
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_a_chunk(data, error) from None


def _not_a_chunk(data: bytes, error: Exception) -> EngineError | StreamViolation:
    """Why `data` is no chunk. The typed decoder may stop at a wrong type before it sees that the rest is not JSON."""
    try:
        other = msgspec.json.decode(data)
    except RecursionError:
        return StreamViolation("json-depth", f"an event of {len(data)} bytes is nested too deeply")
    except msgspec.DecodeError:
        text = data.decode()
        rule = "bad-json" if text.lstrip()[:1] in ("{", "[") else "error-text"
        return EngineError(rule, shown(text) or "an empty text")
    if isinstance(other, dict) and "choices" not in other and ("error" in other or "message" in other):
        return _error_object(other.get("error", other.get("message")))
    return StreamViolation("chunk-shape", shown(str(error)))


def _error_object(told: Any) -> StreamViolation:
    said = told.get("message") if isinstance(told, dict) else told
    return StreamViolation("error-object", shown(said) if isinstance(said, str) else "an error object without text")


def only_choice(chunk: Chunk) -> Choice:
    """The one choice of a chunk, which the pinned model alone made.

    Raises StreamViolation: `object`, `error-object`, `adapter`, `session`, `one-choice`, `tool-call`, `nul`.
    """
    if chunk.object != OBJECT:
        raise StreamViolation("object", f"expected {OBJECT}, got {shown(chunk.object)!r}")
    if chunk.error is not None:
        raise _error_object(chunk.error)
    if chunk.adapter_generation is not None:
        raise StreamViolation("adapter", "an adapter answered, with other weights than the release pins")
    if chunk.session_id is not None:
        raise StreamViolation("session", "an answer of a session of tools, which no request of ours begins")
    choices = chunk.choices
    if len(choices) != 1 or choices[0].index != 0:
        raise StreamViolation("one-choice", f"expected one choice at index 0, got {len(choices)}")
    choice = choices[0]
    delta = choice.delta
    called, calls = delta.function_call, delta.tool_calls
    if (calls is not None and calls != []) or (called is not None and called != []):
        raise StreamViolation("tool-call", "a tool call, which no request of ours allows")
    text, thought = delta.content, delta.reasoning_content
    if (text and "\0" in text) or (thought and "\0" in thought):
        raise StreamViolation("nul", "a NUL character in the answer")
    return choice


def check_finish(reason: str) -> None:
    """Raise StreamViolation unless `reason` ends an answer: `tool-call`, `content-filter`, `finish-reason`."""
    if reason not in ANSWERS:
        rule = _FOREIGN_FINISH.get(reason, "finish-reason")
        raise StreamViolation(rule, f"expected finish reason stop or length, got {shown(reason)!r}")


def checked_usage(usage: WireUsage, allowed_tokens: int) -> Usage:
    """The counts, if they add up within the budget.

    Raises StreamViolation: `usage-range`, `usage-sum`, `usage-budget`.
    """
    prompt, completion, total = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
    if min(prompt, completion) < 0 or max(prompt, completion, total) > MAX_EXACT_INT:
        raise StreamViolation("usage-range", f"expected counts from 0 to {MAX_EXACT_INT}, got one beyond them")
    if prompt + completion != total:
        raise StreamViolation("usage-sum", f"{prompt} prompt and {completion} completion tokens are not {total}")
    if completion > allowed_tokens:
        raise StreamViolation("usage-budget", f"expected at most {allowed_tokens} completion tokens, got {completion}")
    return Usage(prompt, completion, total)
