"""The closed chat request: a question, put into exactly the fields that the profile honours.

A body holds no field that the engine would ignore and none that could start a tool, a search or a session; it always
streams. What a question is (`question_digest`) does not depend on host, release, route or transport; what was sent
(`ChatRequest.digest`) is the wire bytes themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from contracts.digest import Digest, canonical_digest, wire_json
from contracts.errors import ContractRefused
from contracts.limits import Limits
from contracts.locator import Derived, locator_digest
from contracts.ordering import Label, OrderingForm, Placed, lay_out, ordering_form, part_kinds
from contracts.parameters import judge_parameters
from contracts.profile import Profile
from contracts.question import MediaPart, Part, Question
from contracts.request_bounds import check_bounds
from contracts.transport import MediaUrls, body_bound, check_room

SCHEMA_NAME = "answer"
_GUIDANCE = {"whitespace_flexible": False}
_TEMPERATURE = re.compile(r"(?:0|1)(?:\.[0-9]{1,6})?|2(?:\.0{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request as sent, and what it was built from. Digests of artifacts and locators are in the media's order.

    `not_honoured` names parameters that were asked for and are not in the body, because the engine ignores them.
    """

    body: bytes
    digest: Digest
    question_digest: Digest
    ordering_form: OrderingForm
    route: str
    max_tokens: int
    artifact_digests: tuple[Digest, ...]
    locator_digests: tuple[Digest, ...]
    not_honoured: tuple[str, ...] = ()


def question_digest(question: Question, form: OrderingForm) -> Digest:
    """The identity of a question: the digest of its document (DESIGN: digests)."""
    return canonical_digest(question_document(question, form))


def question_document(question: Question, form: OrderingForm) -> dict[str, Any]:
    """What identifies a question: ordered parts, answer form, parameters and ordering form. Receipts hold it."""
    parameters = question.parameters.identity()
    return {
        "parts": [_part_identity(part) for part in question.parts],
        "answer_schema": question.answer_schema,
        "max_output_tokens": question.max_output_tokens,
        "temperature": _temperature(question.temperature),
        "ordering_form": form.value,
        **({"parameters": parameters} if parameters else {}),
    }


def build_request(
    question: Question,
    *,
    profile: Profile,
    route: str,
    staged_url: MediaUrls,
    limits: Limits,
) -> ChatRequest:
    """Build the request for `question`; `staged_url` names where the worker finds an artifact, or is a `DataUrls`.

    Raises ContractRefused with the name of the bound or rule: those of `check_bounds`, `temperature`, `answer-form`,
    `request-field`, `parameter-not-honoured`, `parameter-deviates`, `ordering-strict`, `media-part-bytes`,
    `request-bytes`; and what `staged_url` raises.
    """
    check_bounds(question, limits)
    check_room(staged_url, tuple(part.artifact for part in question.media), profile, limits)
    judged = judge_parameters(question.parameters, profile, question.not_honoured)
    kinds = part_kinds(question)
    form = ordering_form(kinds, profile, question.ordering)
    messages = [
        {"role": "user", "content": [_content(slot, question.parts, staged_url) for slot in message]}
        for message in lay_out(kinds, form, profile)
    ]
    body = wire_json(_fields(question, messages, judged.sent, profile, route))
    bound = body_bound(staged_url, profile, limits)
    if len(body) > bound:
        raise ContractRefused("request-bytes", f"expected at most {bound} bytes, got {len(body)}")
    return ChatRequest(
        body=body,
        digest=Digest.of(body),
        question_digest=question_digest(question, form),
        ordering_form=form,
        route=route,
        max_tokens=question.max_output_tokens,
        artifact_digests=tuple(part.artifact.digest for part in question.media),
        locator_digests=tuple(locator_digest(part.locator) for part in question.media),
        not_honoured=judged.not_honoured,
    )


def _fields(
    question: Question, messages: list[Any], parameters: dict[str, Any], profile: Profile, route: str
) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "model": route,
        "messages": messages,
        "max_tokens": question.max_output_tokens,
        "temperature": float(_temperature(question.temperature)),
        **parameters,
        "stream": True,
    }
    if question.answer_schema is not None:
        if not profile.honours("response_format"):
            raise ContractRefused("answer-form", f"{profile.version} does not honour response_format")
        wanted["response_format"] = _response_format(question.answer_schema, profile)
    wanted["enable_thinking"] = False  # omitted means true: reasoning would eat the budget
    for name in wanted:
        if not profile.honours(name):
            raise ContractRefused("request-field", f"{profile.version} does not honour {name}, which every request has")
    return wanted


def _response_format(schema: dict[str, Any], profile: Profile) -> dict[str, Any]:
    guided = {**schema, "x-guidance": _GUIDANCE} if profile.schema_guidance else schema
    return {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": guided}}


def _content(slot: Placed | Label, parts: tuple[Part, ...], staged_url: MediaUrls) -> dict[str, Any]:
    if isinstance(slot, Label):
        return {"type": "text", "text": slot.text}
    part = parts[slot.index]
    if isinstance(part, MediaPart):
        kind = f"{part.artifact.modality.value}_url"
        return {"type": kind, kind: {"url": staged_url(part.artifact)}}
    return {"type": "text", "text": part.text}


def _part_identity(part: Part) -> dict[str, Any]:
    if not isinstance(part, MediaPart):
        return {"kind": "text", "text": part.text}
    identity: dict[str, Any] = {"kind": part.artifact.modality.value, "artifact": str(part.artifact.digest)}
    if isinstance(part.locator, Derived):
        identity["transformation"] = part.locator.transformation
    return identity


def _temperature(text: str) -> str:
    """The shortest form of a temperature, so that "0", "0.0" and "0.00" are one question."""
    if not _TEMPERATURE.fullmatch(text):
        raise ContractRefused("temperature", f"expected a decimal from 0 to 2, got {len(text)} characters")
    return text.rstrip("0").rstrip(".") if "." in text else text
