"""Families of errors: what an engine means by a status and a message, and whether asking again can help.

The engine answers 500 to most mistakes of its client, and 200 with a text in the stream to what it notices late. So
the message's beginning counts first, the status only where no beginning is known. Pure; the texts are as `shown`
leaves them or as sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from contracts.outcome import Outcome
from contracts.profile_fact import Basis


class Again(str, Enum):
    """Whether another try can help: not at all, or with the same request."""

    NO = "no"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class ErrorFamily:
    """Errors of one cause. `begins` are beginnings of messages; none means that `statuses` alone decide, and no status
    there means any. A known beginning decides whatever the status is."""

    name: str
    statuses: tuple[int, ...]
    begins: tuple[str, ...]
    meaning: str
    again: Again
    outcome: Outcome
    basis: Basis
    source: str


def _client(
    name: str, begins: tuple[str, ...], meaning: str, source: str, *, basis: Basis = Basis.READ, again: Again = Again.NO
) -> ErrorFamily:
    return ErrorFamily(name, (), begins, meaning, again, Outcome.ENGINE_ERROR, basis, source)


def _status(
    name: str,
    statuses: tuple[int, ...],
    meaning: str,
    source: str,
    *,
    again: Again = Again.NO,
    outcome: Outcome = Outcome.ENGINE_ERROR,
) -> ErrorFamily:
    return ErrorFamily(name, statuses, (), meaning, again, outcome, Basis.READ, source)


_MEDIA = ("Image sub-content", "Audio sub-content", "Video sub-content")

_SHARED: tuple[ErrorFamily, ...] = (
    _client("prompt-too-long", ("Prompt sequence length is greater than",), "the prompt exceeds the context",
            "engine/add_request.rs; seen at 0.9.5", basis=Basis.MEASURED),
    _client("prompt-empty", ("Received an empty prompt",), "nothing to answer", "engine/add_request.rs"),
    _client("part-unknown", ("Expected array content sub-content",), "a kind of part that it lacks",
            "chat_completion.rs"),
    _client("part-malformed", _MEDIA, "a part without its URL or text", "chat_completion.rs"),
    _client("part-alone", ("Expected `text` key in input message", "Expected text key in input message"),
            "a message that is a lone medium", "chat_completion.rs; seen at 0.9.5", basis=Basis.MEASURED),
    _client("media-missing", ("No such file or directory",), "the staged file is not there (any more)",
            "util.rs: the cause of a failed open", again=Again.SAME),
    _client("ffmpeg-missing", ("FFmpeg not found",), "the worker cannot decode video", "wheel 0.9.5",
            basis=Basis.MEASURED),
    _client("model-unknown", ("ModelNotFound(",), "no such route", "core/lib.rs: errors print as their variants"),
    _client("model-reloading", ("ModelReloading(",), "the model is being loaded", "core/lib.rs", again=Again.SAME),
    _client("engine-dead", ("SenderPoisoned", "EnginePoisoned"), "the engine's thread died; the next request starts it",
            "core/lib.rs", again=Again.SAME),
    _client("tensor", ("shape mismatch",), "the model's code cannot take this input", "wheel 0.8.23",
            basis=Basis.MEASURED),
)  # fmt: skip

_FILE_URLS = _client(
    "file-refused",
    tuple(f"Server request {kind} sources do not support file URLs" for kind in ("image", "audio", "video")),
    "this version takes no file:// media over HTTP",
    "media_source.rs, first in v0.8.18",
)

_FRONT: tuple[ErrorFamily, ...] = (
    _client("body-refused", ("body-json:", "body-field:", "body-size:", "content-type:"), "not a body of our front's",
            "our own HTTP front", basis=Basis.MEASURED),
    _client("model-unknown", ("model-unknown:",), "no such route", "our own HTTP front", basis=Basis.MEASURED),
    _client("media-missing", ("staged-missing:",), "the staged file is not there (any more)", "our own HTTP front",
            basis=Basis.MEASURED, again=Again.SAME),
)  # fmt: skip

_BY_STATUS: tuple[ErrorFamily, ...] = (
    _status("stream-text", (200,), "the engine failed while answering", "chat_completion.rs: its own words, any text"),
    _status("body-syntax", (400,), "the body is no JSON", "axum's default"),
    _status("endpoint-missing", (404, 405), "no such endpoint", "axum's default"),
    _status("body-too-large", (413,), "the body exceeds the limit", "axum's default"),
    _status("content-type", (415,), "the body is not said to be JSON", "axum's default"),
    _status("request-refused", (422,), "a field, or a check before the stream, failed",
            "axum's default; handler_core.rs"),
    _status("not-admitted", (429, 503), "no room now; the engine never says so itself", "what stands before an engine",
            again=Again.SAME, outcome=Outcome.UNAVAILABLE),
    _status("hop-failed", (502, 504), "what stands before the engine did not reach it", "what stands before an engine",
            again=Again.SAME),
    _status("client-or-engine", (500,), "mostly the request's fault, which this status does not tell",
            "handler_core.rs"),
)  # fmt: skip
_UNKNOWN = _status("unknown", (), "a status that no version is known to send", "none")

_WRAPPER = "engine-refused: "
"""How our front begins what the engine behind it said."""

ERROR_ROWS: Mapping[str, tuple[ErrorFamily, ...]] = {
    "0.8.2": (*_SHARED, *_BY_STATUS, _UNKNOWN),
    "0.8.17": (*_SHARED, *_BY_STATUS, _UNKNOWN),
    "0.9.2": (*_SHARED, _FILE_URLS, *_BY_STATUS, _UNKNOWN),
    "0.9.5": (*_FRONT, *_SHARED, *_BY_STATUS, _UNKNOWN),
}


def family_of(families: tuple[ErrorFamily, ...], status: int, message: str) -> ErrorFamily:
    """The family of an error: by its message's beginning, else by its status, else `unknown`. Raises nothing."""
    said = message.strip().removeprefix(_WRAPPER)
    for family in families:
        if any(said.startswith(beginning) for beginning in family.begins):
            return family
    return next((family for family in families if status in family.statuses), _UNKNOWN)
