"""The profile table: one row per supported engine version, each fact with how it is known.

A row is written as the previous one with what changed, because that is how the versions relate. Names of Rust files
are those of the mistral.rs repository at the version's tag. `0.9.5` is the engine of the PyPI wheel, embedded behind
our own HTTP front: its wire is ours, everything behind it is the engine's. contracts/profile turns rows into values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Basis(str, Enum):
    """How a fact is known: seen on a running engine of that version, or read in its source or documents."""

    MEASURED = "measured"
    READ = "read"


class FieldUse(str, Enum):
    """What an engine does with a request field. Only `HONOURED` ones are ever sent."""

    HONOURED = "honoured"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class TerminalDefect:
    """A known way in which this version ends a stream without saying so.

    `after_text` tells whether it shows after chunks or on an empty stream; `same_again` whether the same request
    ends the same way.
    """

    name: str
    explanation: str
    after_text: bool
    same_again: bool


class Fact(NamedTuple):
    """A cell of the table."""

    value: Any
    basis: Basis
    source: str


def _read(value: Any, source: str) -> Fact:
    return Fact(value, Basis.READ, source)


def _measured(value: Any, source: str) -> Fact:
    return Fact(value, Basis.MEASURED, source)


_SPLIT_UTF8 = TerminalDefect(
    "split-utf8-eof",
    "a last token that leaves incomplete UTF-8 ends the stream without finish, usage or [DONE]",
    after_text=True,
    same_again=True,
)
_POOL_TOO_SMALL = TerminalDefect(
    "kv-pool-too-small",
    "a prompt that does not fit the paged key-value pool is dropped without an event",
    after_text=False,
    same_again=True,
)
_POOL_SOURCE = "paged_attention/scheduler.rs: FinishedIgnored; chat_completion.rs: the sender is dropped"
_REQUEST_FIELDS = "mistralrs-server-core openai.rs, ChatCompletionRequest"

_V0_8_2: dict[str, Fact] = {
    "media_transports": _read(("file",), "util.rs: file:// opens any path that the process can read"),
    "request_id_echo": _read(False, "no occurrence of x-request-id in the source; first in v0.8.11"),
    "keep_alive_s": _read(10.0, "streaming.rs: KEEP_ALIVE_INTERVAL, 10,000 ms"),
    "response_id_pattern": _measured("[0-9]{1,20}", "a counter per engine, as a decimal string (wheel 0.8.4)"),
    "role_in_every_delta": _measured(True, "every delta has the role assistant (wheel 0.8.4)"),
    "regroup_order": _read(("image", "audio", "video", "text"), "chat_completion.rs rebuilds a message's content"),
    "text_join": _read(" ", "chat_completion.rs joins the text parts with a space"),
    "least_completion_tokens": _measured(1, "a budget of 0 yields one token (wheel 0.8.4)"),
    "schema_guidance": _read(False, "no evidence for this version, so the option is not sent"),
    "terminal_defects": _measured(
        (_SPLIT_UTF8, _POOL_TOO_SMALL), f"sequence.rs and sampling.rs, seen on wheel 0.8.4; {_POOL_SOURCE} (read)"
    ),
    "fields.model": _read(FieldUse.HONOURED, _REQUEST_FIELDS),
    "fields.messages": _read(FieldUse.HONOURED, _REQUEST_FIELDS + "; parts are regrouped, see regroup_order"),
    "fields.max_tokens": _read(FieldUse.HONOURED, _REQUEST_FIELDS),
    "fields.temperature": _read(FieldUse.HONOURED, _REQUEST_FIELDS + "; 0 is greedy, default 1.0"),
    "fields.stream": _read(FieldUse.HONOURED, _REQUEST_FIELDS),
    "fields.response_format": _read(FieldUse.HONOURED, _REQUEST_FIELDS + "; json_schema needs a name"),
    "fields.enable_thinking": _read(FieldUse.HONOURED, "chat_template.rs: omitted means true"),
    "fields.seed": _read(FieldUse.IGNORED, "sampling uses one constant-seed generator for all requests"),
    "fields.stream_options": _read(FieldUse.IGNORED, _REQUEST_FIELDS + ": no such field; usage always comes"),
}

_V0_8_17: dict[str, Fact] = _V0_8_2 | {
    "request_id_echo": _read(True, "PR 2248, first in v0.8.11"),
}

_V0_9_2: dict[str, Fact] = _V0_8_17 | {
    "media_transports": _read(("data",), "PR 2263, first in v0.8.18: file URLs are refused over HTTP"),
    "regroup_order": _read(
        ("image", "video", "text", "audio"), "chat_completion.rs; Gemma 4 has its audio moved after the text"
    ),
    "least_completion_tokens": _read(0, "a budget of 0 is refused"),
    "terminal_defects": _read((_POOL_TOO_SMALL,), f"v0.9.1 always sends the last chunk; {_POOL_SOURCE}"),
}

_V0_9_5: dict[str, Fact] = _V0_9_2 | {
    "media_transports": _measured(("file",), "the binding opens file:// paths; our front opens staged files only"),
    "request_id_echo": _read(True, "our own HTTP front"),
    "keep_alive_s": _read(10.0, "our own HTTP front"),
    "response_id_pattern": _measured("[0-9]{1,20}", "process-wide counter as a decimal string"),
    "role_in_every_delta": _measured(True, "every chunk looked at"),
    "regroup_order": _measured(
        ("image", "video", "text", "audio"),
        "equal log-probabilities and prompt lengths when the parts of one message are permuted",
    ),
    "text_join": _measured(" ", "equal log-probabilities for two text parts and one joined by a space"),
    "schema_guidance": _measured(True, "without it a model may emit white space up to its budget"),
    "fields.temperature": _measured(FieldUse.HONOURED, "0 repeats its text, 1 does not"),
    "fields.max_tokens": _measured(FieldUse.HONOURED, "finish length at the budget"),
    "fields.response_format": _measured(FieldUse.HONOURED, "the front hands the schema on as a grammar: valid JSON"),
    "fields.seed": _measured(FieldUse.IGNORED, "the binding's request has no such field"),
}


ROWS: Mapping[str, Mapping[str, Fact]] = {
    "0.8.2": _V0_8_2,
    "0.8.17": _V0_8_17,
    "0.9.2": _V0_9_2,
    "0.9.5": _V0_9_5,
}
