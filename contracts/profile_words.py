"""What the facts of a profile mean, for people, and a whole profile as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from contracts.limits import MIB
from contracts.profile import FACTS, PROFILES, Evidence, Profile
from contracts.profile_fact import TerminalDefect

FACT_WORDS: Mapping[str, str] = {
    "has_server": "it comes with a server of its own, so there are flags",
    "media_transports": "how a medium may be named in a request: a path on the worker, or the bytes themselves",
    "media_part_bytes": "the largest medium it takes, in bytes",
    "remote_media": "which http(s) addresses it would fetch media from; we name none",
    "body_bytes": "the largest request body, in bytes",
    "video_frames": "how many frames of a clip it takes at most",
    "multimodal_on_cpu": "pictures, sounds and clips are answered right on a CPU",
    "request_id_echo": "the answer repeats the request's `x-request-id`",
    "metrics": "it has `/metrics`",
    "access_log": "it can write a line per request",
    "keep_alive_s": "seconds of silence after which it sends a comment",
    "keep_alive_form": "that comment, as bytes",
    "response_id_pattern": "what an answer's id must match; ids start anew with each engine",
    "role_in_every_delta": "each piece of an answer repeats the role, always `assistant`",
    "usage_placement": "where the token counts come",
    "finish_reasons": "how an answer says that it ended; we accept `stop` and `length`",
    "error_form": "the body of an error status",
    "stream_error_form": "an error once the stream has begun, or noticed late",
    "regroup_orders": "the order of kinds in which the model sees one message's parts, whatever their order was; "
    "several where it depends on the model",
    "text_join": "what stands between joined texts of one message",
    "keeps_message_order": "the model sees messages in their order",
    "takes_lone_medium": "a message may be one medium without a text",
    "least_completion_tokens": "what even a smaller token budget yields",
    "schema_guidance": "a JSON schema takes the grammar's options (`x-guidance`)",
    "terminal_defects": "known ways to end a stream early without saying so",
    "disconnect_stops_decoding": "it stops making tokens once the reader has left",
    "disconnect_stops_prefill": "it stops reading the prompt once the reader has left",
    "disconnect_kills_engine": "a reader who leaves can end the engine, and all streams in it",
    "buffered_responses": "pieces of an answer it holds for a slow reader before it stops for everybody",
    "refuses_overload": "it says so when there is no room; else requests wait without bound",
    "stops_gracefully": "it finishes answers before it stops",
    "health_tells_engine": "`/health` fails when the engine's thread is dead",
    "authenticates": "it asks who is calling",
}


def shown_value(name: str, value: Any) -> str:
    """A fact's value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "no bound"
    if name.endswith("_bytes"):
        return f"{value // MIB} MiB"
    if isinstance(value, tuple):
        if value and all(isinstance(each, tuple) for each in value):
            return " or ".join(", ".join(order) for order in value)
        parts = [each.name if isinstance(each, TerminalDefect) else str(each) for each in value]
        return ", ".join(parts) or "none"
    if name in _QUOTED:
        return "`" + str(value).replace("\n", "\\n") + "`"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


_QUOTED = {"keep_alive_form", "response_id_pattern", "text_join", "error_form"}


def profile_document(row: Profile) -> dict[str, Any]:
    """Everything that is known of a version, as JSON: each value with basis and source."""
    return {
        "document": "profile.v1",
        "version": row.version,
        "facts": {name: _cell({"value": getattr(row, name)}, row.evidence[name]) for name in FACTS},
        "fields": {
            name: _cell({"use": use, "how": row.field_effects[name]}, row.evidence[f"fields.{name}"])
            for name, use in row.fields.items()
        },
        "launch_flags": _documents(row.launch_flags),
        "endpoints": _documents(row.endpoints),
        "error_families": _documents(row.error_families),
    }


def _cell(value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    plain: dict[str, Any] = _plain({**value, "basis": evidence.basis, "source": evidence.source})
    return plain


def _documents(values: Iterable[Any]) -> list[Any]:
    return [_plain(asdict(value)) for value in values]


def _plain(value: Any) -> Any:
    """`value` in JSON's types: enums as their values, tuples as lists, defects as objects."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TerminalDefect):
        return asdict(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value


def every_fact() -> Iterable[tuple[str, str, list[str]]]:
    """Of each fact its name, its meaning and its value in each version, in the table's order."""
    for name in FACTS:
        yield name, FACT_WORDS[name], [shown_value(name, getattr(row, name)) for row in PROFILES.values()]
