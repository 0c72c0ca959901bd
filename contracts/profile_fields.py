"""What each engine version does with each field of a chat request: one row per version.

All fields that the engine's documents name for /v1/chat/completions are here, and some of OpenAI's that they do not.
A name with a colon is one value of a field that is judged apart. Unknown keys are ignored by the engine's server and
refused by the front of the engine in the box. Sources as in contracts/profiles_table.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.profile_fact import Basis, Fact, FieldEffect, FieldUse, carried

_HONOURED, _DEVIATES, _IGNORED = FieldUse.HONOURED, FieldUse.DEVIATES, FieldUse.IGNORED
_REFUSED, _DANGEROUS = FieldUse.REFUSED, FieldUse.DANGEROUS

_REQUEST = "openai.rs, ChatCompletionRequest"
_SAMPLING = f"{_REQUEST}; add_request.rs hands it to the sampler"
_UNKNOWN = f"{_REQUEST}: no such field, and unknown keys are ignored"
_LOOP = "engine/add_request.rs: switches on the agentic loop"
_FRONT = "our own HTTP front, chat_body.py"


def _field(use: FieldUse, how: str, source: str, basis: Basis = Basis.READ) -> Fact:
    return Fact(FieldEffect(use, how), basis, source)


def _seen(use: FieldUse, how: str, source: str) -> Fact:
    return _field(use, how, source, Basis.MEASURED)


_V0_8_2: dict[str, Fact] = {
    "model": _field(_HONOURED, "chooses the model; an unknown one is a 500; chunks repeat the engine's name", _REQUEST),
    "messages": _field(_HONOURED, "a list, or a bare string; parts of one message are regrouped by kind", _REQUEST),
    "max_tokens": _field(_HONOURED, "bounds the answer; 0 yields one token up to 0.8.17", _REQUEST),
    "max_completion_tokens": _field(_HONOURED, "another name of max_tokens; both at once are a 422", _REQUEST),
    "temperature": _field(_HONOURED, "0 takes the likeliest token; 1.0 where it is left out", _REQUEST),
    "top_p": _field(_HONOURED, "nucleus sampling", _SAMPLING),
    "top_k": _field(_HONOURED, "samples among that many; not in OpenAI's documents", _SAMPLING),
    "min_p": _field(_HONOURED, "drops what is less likely than that share of the likeliest", _SAMPLING),
    "presence_penalty": _field(_HONOURED, "as documented", _SAMPLING),
    "frequency_penalty": _field(_HONOURED, "as documented", _SAMPLING),
    "repetition_penalty": _field(_HONOURED, "as in other local engines; not in OpenAI's documents", _SAMPLING),
    "dry_multiplier": _field(_HONOURED, "switches on DRY, a penalty on repeated sequences", _SAMPLING),
    "dry_base": _field(_HONOURED, "part of DRY", _SAMPLING),
    "dry_allowed_length": _field(_HONOURED, "part of DRY", _SAMPLING),
    "dry_sequence_breakers": _field(_HONOURED, "part of DRY", _SAMPLING),
    "seed": _field(_IGNORED, "no effect", "core/engine/mod.rs: one generator of constant seed for all requests"),
    "logit_bias": _field(
        _IGNORED, "parsed and stored, never used", "sampler.rs: only the struct and two None defaults"
    ),
    "logprobs": _field(_DEVIATES, "another shape than OpenAI's in streams", "response.rs: one object, not a list"),
    "top_logprobs": _field(_DEVIATES, "another shape than OpenAI's in streams", "response.rs: tokens are numbers"),
    "stop": _seen(_DEVIATES, "text of a stop string of several tokens leaks, and one token after it", "wheel 0.8.4"),
    "n": _seen(_DANGEROUS, "choices share one chunk, usage counts one; unequal lengths break a batch", "wheel 0.8.4"),
    "stream": _field(_HONOURED, "true streams; what false does is a row of its own", _REQUEST),
    "stream:false": _field(
        _DANGEROUS,
        "cannot be cancelled; up to 0.8.3 a client that leaves kills the engine and all streams in it",
        "sampling.rs, utils/mod.rs; issue 2147, PR 2170",
    ),
    "stream_options": _field(_IGNORED, "usage always comes", _UNKNOWN),
    "response_format": _field(_HONOURED, "text, or json_schema with a name", _REQUEST),
    "response_format:json_object": _field(_REFUSED, "422; accepted from 0.8.20", _REQUEST),
    "grammar": _field(_HONOURED, "a grammar of the engine's own kind; not beside response_format", _REQUEST),
    "enable_thinking": _field(_HONOURED, "left out means true: reasoning then eats the budget", "chat_template.rs"),
    "reasoning_effort": _field(_DEVIATES, "low, medium, high; any other text is ignored", _REQUEST),
    "truncate_sequence": _field(
        _DANGEROUS, "a prompt that is too long loses its beginning without a word", "engine/add_request.rs"
    ),
    "tools": _field(_DANGEROUS, "answers may become tool calls, and text is held back until that is settled", _REQUEST),
    "tool_choice": _field(_DANGEROUS, "auto, none or a function", _REQUEST),
    "tool_choice:required": _field(_REFUSED, "422; accepted from 0.8.13", _REQUEST),
    "parallel_tool_calls": _field(_IGNORED, "no effect", _UNKNOWN),
    "web_search_options": _field(
        _DANGEROUS, "searches the web, also where the server was started without search", _LOOP
    ),
    "max_tool_rounds": _field(_DANGEROUS, "any value turns the request into rounds of tools", _LOOP),
    "enable_code_execution": _field(_DANGEROUS, "lets the model run Python on the worker", _REQUEST),
    "agent_permission": _field(
        _DANGEROUS, "whether tools ask first; `ask` holds a stream open for an answer", _REQUEST
    ),
    "session_id": _field(_DANGEROUS, "ties requests together: state of one reaches another", _REQUEST),
    "files": _field(_DANGEROUS, "hands the request files of the server's store", _REQUEST),
    "adapter": _field(_IGNORED, "no such field before 0.9.1", _UNKNOWN),
    "user": _field(_IGNORED, "no effect", _UNKNOWN),
    "metadata": _field(_IGNORED, "no effect", _UNKNOWN),
    "service_tier": _field(_IGNORED, "no effect", _UNKNOWN),
    "store": _field(_IGNORED, "no effect", _UNKNOWN),
}

_V0_8_17: dict[str, Fact] = carried(_V0_8_2, "0.8.2") | {
    "stream:false": _field(_DANGEROUS, "cannot be cancelled: it runs to its end when its client left", "sampling.rs"),
    "tool_choice:required": _field(_DANGEROUS, "forces a tool call", "first in v0.8.13"),
}

_V0_9_2: dict[str, Fact] = carried(_V0_8_17, "0.8.17") | {
    "max_tokens": _field(_HONOURED, "bounds the answer; 0 is refused", "first in 0.9.x"),
    "model": _field(_HONOURED, "chooses the model; an unknown one is a 422 or a 500", "validate_model_name and others"),
    "response_format:json_object": _field(_HONOURED, "some JSON object", "first in v0.8.20"),
    "reasoning_effort": _field(
        _HONOURED, "off, low, medium, high, xhigh; others, and contradictions, are refused", "first in v0.9.1"
    ),
    "adapter": _field(_DANGEROUS, "answers by other weights than the release pins", "first in v0.9.1"),
}


def _behind_our_front() -> dict[str, Fact]:
    """A closed body: what is not listed there is a 422 that names the field."""
    refused = _seen(_REFUSED, "422: the body of our front is closed", f"{_FRONT}; the front's tests ask each")
    row = dict.fromkeys(_V0_9_2, refused)
    dangerous = [name for name, fact in _V0_9_2.items() if fact.value.use is _DANGEROUS]
    how = "refused with 422 by our front; dangerous in the engine behind it"
    row |= {name: _seen(_DANGEROUS, how, f"{_FRONT}; the front's tests ask each") for name in dangerous}
    return row | {
        "model": _seen(_HONOURED, "the route or `default`; another is a 422", _FRONT),
        "messages": _seen(_HONOURED, "lists of parts, regrouped by kind; media by staged path", _FRONT),
        "max_tokens": _seen(
            _HONOURED, "finish reason length at the budget; 0 is refused", "the engine behind our front"
        ),
        "temperature": _seen(_HONOURED, "0 repeats its text, 1 does not", "the engine behind our front"),
        "top_p": _field(_HONOURED, "handed to the engine's binding", _FRONT),
        "seed": _seen(_IGNORED, "the binding has no such field; our front refuses it, so none is sent", _FRONT),
        "stream": _seen(_HONOURED, "must be true", _FRONT),
        "response_format": _seen(_HONOURED, "json_schema with a name, handed on as a grammar: valid JSON", _FRONT),
        "enable_thinking": _field(_HONOURED, "handed to the engine's binding", _FRONT),
    }


FIELD_ROWS: Mapping[str, Mapping[str, Fact]] = {
    "0.8.2": _V0_8_2,
    "0.8.17": _V0_8_17,
    "0.9.2": _V0_9_2,
    "0.9.5": _behind_our_front(),
}
