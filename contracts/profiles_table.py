"""The profile table: one row per supported engine version, each fact with how it is known.

A row is written as the previous one with what changed, because that is how the versions relate: a fact whose source
ends with `as in 0.8.2` was read there, and is not among the changes that were looked for up to v0.9.2. Names of Rust
files are those of the mistral.rs repository at the version's tag. `0.9.5` is the engine of the PyPI wheel, embedded
behind our own HTTP front: its wire is ours, everything behind it is the engine's. contracts/profile turns rows into
values; request fields are in contracts/profile_fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.limits import MIB
from contracts.profile_fact import Basis as Basis
from contracts.profile_fact import Fact as Fact
from contracts.profile_fact import FieldUse as FieldUse
from contracts.profile_fact import TerminalDefect as TerminalDefect
from contracts.profile_fact import carried, measured, read

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
_FRONT = "our own HTTP front"
_PICTURE = "the calibration model asked about pictures, sounds and clips on the wheel, on a CPU"

_BY_KIND = ("image", "audio", "video", "text")
_AUDIO_LAST = ("image", "video", "text", "audio")

_V0_8_2: dict[str, Fact] = {
    "has_server": read(True, "mistralrs-cli: `mistralrs serve`; no wheel of this version exists"),
    "media_transports": read(("file",), "util.rs: file:// opens any path that the process can read"),
    "media_part_bytes": read(None, "util.rs, video.rs: a medium is read whole, without a cap"),
    "remote_media": read("any address", "util.rs: http(s) is fetched without a filter, a cap or a look at the status"),
    "body_bytes": read(50 * MIB, "mistralrs_server_router_builder.rs; no flag changes it"),
    "video_frames": read(None, "chat_completion.rs: every frame becomes part of the prompt"),
    "multimodal_on_cpu": read(False, "never run; 0.8.17 and 0.8.23 fail"),
    "request_id_echo": read(False, "no occurrence of x-request-id in the source; first in v0.8.11"),
    "metrics": read(False, "no /metrics route; first in v0.8.4"),
    "access_log": read(False, "no trace layer; first in v0.8.11"),
    "keep_alive_s": read(10.0, "streaming.rs: KEEP_ALIVE_INTERVAL, 10,000 ms"),
    "keep_alive_form": read(":\n\n", "streaming.rs and axum's sse.rs: an empty comment"),
    "response_id_pattern": measured("[0-9]{1,20}", "a counter per engine, as a decimal string (wheel 0.8.4)"),
    "role_in_every_delta": measured(True, "every delta has the role assistant (wheel 0.8.4)"),
    "usage_placement": measured("on the chunk with the finish reason", "null on all before (wheel 0.8.4)"),
    "finish_reasons": read(("stop", "length", "tool_calls"), "sequence.rs: of six, those that reach a chat stream"),
    "error_form": read('{"message": text}', "handler_core.rs; before a handler runs, axum answers in plain text"),
    "stream_error_form": read("bare text as an event, then [DONE]", "chat_completion.rs: status 200 is already out"),
    "regroup_orders": read((_BY_KIND,), "chat_completion.rs rebuilds a message's content"),
    "text_join": read(" ", "chat_completion.rs joins the text parts with a space"),
    "keeps_message_order": read(True, "chat_completion.rs walks the messages in order"),
    "takes_lone_medium": read(False, "chat_completion.rs: a list of one part must be a text, else 500"),
    "least_completion_tokens": measured(1, "a budget of 0 yields one token (wheel 0.8.4)"),
    "schema_guidance": read(False, "no evidence for this version, so the option is not sent"),
    "terminal_defects": measured(
        (_SPLIT_UTF8, _POOL_TOO_SMALL), f"sequence.rs and sampling.rs, seen on wheel 0.8.4; {_POOL_SOURCE} (read)"
    ),
    "disconnect_stops_decoding": measured(True, "the next token's send fails; CPU time goes to zero (wheel 0.8.4)"),
    "disconnect_stops_prefill": measured(False, "still at work ten seconds after the reader left (wheel 0.8.4)"),
    "disconnect_kills_engine": read(True, "utils/mod.rs: a failed send panics; issue 2147, PR 2170, v0.8.4"),
    "buffered_responses": read(10_000, "handler_core.rs: a reader that far behind stops the engine for everybody"),
    "refuses_overload": read(False, "core/lib.rs: the queue has no bound, no 429 and no deadline"),
    "stops_gracefully": read(False, "commands/serve.rs: no signal handler, so SIGTERM cuts streams"),
    "health_tells_engine": read(False, "handlers.rs: OK even where the engine's thread is dead"),
    "authenticates": read(False, "no middleware; an Authorization header is accepted and not looked at"),
}

_V0_8_17: dict[str, Fact] = carried(_V0_8_2, "0.8.2") | {
    "has_server": read(True, "mistralrs-cli: `mistralrs serve`; the wheel holds no server"),
    "multimodal_on_cpu": measured(False, f"{_PICTURE}: the engine's thread panics, then empty texts that say stop"),
    "request_id_echo": read(True, "PR 2248, first in v0.8.11"),
    "metrics": read(True, "GET /metrics, first in v0.8.4"),
    "access_log": read(True, "PR 2248, first in v0.8.11"),
    "disconnect_kills_engine": read(False, "PR 2170, first in v0.8.4"),
}

_V0_9_2: dict[str, Fact] = carried(_V0_8_17, "0.8.17") | {
    "media_transports": read(("data",), "PR 2263, first in v0.8.18: file URLs are refused over HTTP"),
    "media_part_bytes": read(64 * MIB, "media_source.rs: MAX_MEDIA_BYTES, first in v0.8.18"),
    "remote_media": read(
        "public addresses", "PR 2263, v0.8.18: 30 s, three redirects, no proxy, public addresses only, status checked"
    ),
    "video_frames": read(32, "first in v0.8.18"),
    "multimodal_on_cpu": measured(True, f"{_PICTURE}: 8 of 8 right in each task"),
    "regroup_orders": read((_BY_KIND, _AUDIO_LAST), "chat_completion.rs; Gemma 4 has its audio moved after the text"),
    "least_completion_tokens": read(0, "a budget of 0 is refused"),
    "terminal_defects": read((_POOL_TOO_SMALL,), f"v0.9.1 always sends the last chunk; {_POOL_SOURCE}"),
}

_V0_9_5: dict[str, Fact] = carried(_V0_9_2, "0.9.2") | {
    "has_server": measured(False, "the wheel holds bindings only; we serve it by our own HTTP front"),
    "media_transports": measured(("file",), "the binding opens file:// paths; our front opens staged files only"),
    "media_part_bytes": measured(64 * MIB, f"{_FRONT}, staged_media.py: as the engine's server"),
    "remote_media": measured("none", f"{_FRONT} takes staged files only"),
    "body_bytes": read(1 * MIB, f"{_FRONT}: limits.request_bytes, by default this"),
    "video_frames": read(None, "the binding decodes what it is given; intake gives it a clip of a few frames"),
    "multimodal_on_cpu": measured(True, f"{_PICTURE}: the demo does nothing else"),
    "request_id_echo": read(True, _FRONT),
    "metrics": read(False, f"{_FRONT} has three routes, none of them /metrics"),
    "access_log": read(False, f"{_FRONT} writes none"),
    "keep_alive_s": read(10.0, _FRONT),
    "keep_alive_form": read(":\n\n", f"{_FRONT}, as the engine's server"),
    "response_id_pattern": measured("[0-9]{1,20}", "process-wide counter as a decimal string"),
    "role_in_every_delta": measured(True, "every chunk looked at"),
    "usage_placement": measured("on the chunk with the finish reason", "every stream looked at"),
    "finish_reasons": measured(("stop", "length"), "nothing that makes a tool call can be asked of our front"),
    "error_form": measured('{"message": text}', f"{_FRONT}: `<rule>: <reason>` as the text"),
    "stream_error_form": measured("bare text as an event, then [DONE]", f"{_FRONT}, a prompt that is too long"),
    "regroup_orders": measured(
        (_AUDIO_LAST,),
        "equal log-probabilities and prompt lengths when the parts of one message are permuted",
    ),
    "text_join": measured(" ", "equal log-probabilities for two text parts and one joined by a space"),
    "keeps_message_order": measured(True, "two messages swapped: equal prompt lengths, other outputs"),
    "takes_lone_medium": measured(False, "Expected text key in input message"),
    "schema_guidance": measured(True, "without it a model may emit white space up to its budget"),
    "disconnect_stops_decoding": measured(True, "no CPU time after the reader left, and the next request is answered"),
    "buffered_responses": measured(10_000, "the engine runs ahead of a reader that pauses"),
    "refuses_overload": read(True, f"{_FRONT}: 503 over 64 open requests; within them the engine queues"),
    "stops_gracefully": read(False, f"{_FRONT} ends at once on SIGTERM, and with the process that started it"),
    "health_tells_engine": read(False, f"{_FRONT} answers OK without asking the engine"),
    "authenticates": read(False, f"{_FRONT} listens on loopback and looks at the Host header only"),
}


ROWS: Mapping[str, Mapping[str, Fact]] = {
    "0.8.2": _V0_8_2,
    "0.8.17": _V0_8_17,
    "0.9.2": _V0_9_2,
    "0.9.5": _V0_9_5,
}
