"""The endpoints of an engine's server, since when, and what the product does about each.

Only three are used. All others must not be reachable by anybody but the server's operator: several change what is
loaded, and none asks who is calling.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from contracts.profile_fact import Basis
from contracts.profile_launch import OLDEST, numbers


class EndpointUse(str, Enum):
    """What the product does about an endpoint.

    `REFUSED`: no client of ours calls it, and what stands before an engine lets nobody else. `PLANNED`: likewise now,
    with a use that is to come.
    """

    USED = "used"
    REFUSED = "refused at the gateway"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of the engine's own server. `in_the_box`: the front of the engine in the box has it too."""

    name: str
    path: str
    since: str
    effect: str
    use: EndpointUse
    why: str
    basis: Basis
    source: str
    in_the_box: bool = False


_ROUTES = "mistralrs_server_router_builder.rs"
_TAGS = "git grep over tags"
_NO_OTHER = "one way to ask is enough to verify"
_CHANGES = "changes a worker whose identity is pinned"


def _used(name: str, path: str, effect: str, why: str) -> Endpoint:
    source = f"{_ROUTES}, handlers.rs; our front has it too"
    return Endpoint(name, path, OLDEST, effect, EndpointUse.USED, why, Basis.READ, source, in_the_box=True)


def _refused(name: str, path: str, effect: str, why: str, since: str = OLDEST) -> Endpoint:
    source = _ROUTES if since == OLDEST else _TAGS
    return Endpoint(name, path, since, effect, EndpointUse.REFUSED, why, Basis.READ, source)


ENDPOINTS: tuple[Endpoint, ...] = (
    _used("chat completions", "POST /v1/chat/completions", "answers, streamed", "the one way a question is asked"),
    _used(
        "models", "GET /v1/models", "what is loaded; `default` first, without a status", "readiness: the exact route"
    ),
    _used("health", "GET /health", "OK once the model is loaded, and also when its thread is dead", "a first knock"),
    _refused("root", "GET /", "OK, as /health", "one knock is enough"),
    Endpoint(
        *("metrics", "GET /metrics", "0.8.4", "requests, durations, time to first token", EndpointUse.PLANNED),
        *("for the operator's scraper; nothing of ours reads it yet", Basis.READ, _TAGS),
    ),
    _refused(
        "responses", "POST, GET, DELETE /v1/responses, and cancel", "answers that are kept, background runs", _NO_OTHER
    ),
    _refused("completions", "POST /v1/completions", "answers to a bare prompt", _NO_OTHER),
    _refused("messages", "POST /v1/messages", "answers in Anthropic's form", _NO_OTHER, "0.8.4"),
    _refused("embeddings", "POST /v1/embeddings", "vectors; refuses `dimensions`", "no stage uses vectors"),
    _refused(
        "images", "POST /v1/images/generations", "pictures; writes files on the server", "evidence is not generated"
    ),
    _refused("speech", "POST /v1/audio/speech", "sound, as wav or pcm", "evidence is not generated"),
    _refused("files", "GET, DELETE /v1/files", "files that runs of tools left", "state between requests"),
    _refused("file upload", "POST /v1/files", "files for later requests", "media are staged by digest", "0.8.4"),
    _refused("skills", "POST, GET /v1/skills, and versions", "scripts for the shell", "code on the worker", "0.8.4"),
    _refused("LoRA", "GET /v1/lora_adapters and load, unload", "other weights at run time", _CHANGES, "0.9.1"),
    _refused(
        "sessions", "GET, PUT, DELETE /v1/sessions/{id}", "conversations, readable by id", "state between requests"
    ),
    _refused("approvals", "POST /v1/agent/approvals/{id}", "lets a tool go ahead", "no tools, so nothing to approve"),
    _refused("unload, reload", "POST /v1/models/unload, reload, status", "frees or loads models", _CHANGES),
    _refused("tune", "POST /v1/models/tune", "recommends a quantisation", "an operator's tool, not a request's"),
    _refused("re_isq", "POST /re_isq", "quantises the loaded model anew", _CHANGES),
    _refused("system", "GET /v1/system/info, POST /v1/system/doctor", "what the machine is", "tells on the host"),
    _refused("docs", "GET /docs, /api-doc/openapi.json", "a part of the interface, without streams", "no contract"),
    _refused("UI", "GET /ui", "a page for chats", "started with --no-ui"),
)


def is_there(endpoint: Endpoint, version: str, *, has_server: bool) -> bool:
    """Whether a worker of `version` has `endpoint`: its own server, or our front where the engine comes without one."""
    return numbers(endpoint.since) <= numbers(version) if has_server else endpoint.in_the_box
