"""Closed requests: exactly the honoured fields, in the bundle's order, within every bound."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from contracts.digest import Digest, wire_json
from contracts.errors import ContractRefused
from contracts.limits import Limits
from contracts.locator import Derived, FileSource, UrlSource, locator_digest
from contracts.ordering import OrderingForm
from contracts.profile import PROFILES, Profile, profile
from contracts.profiles_table import FieldUse
from contracts.question import MediaPart, Ordering, Question
from contracts.request import ChatRequest, build_request, question_digest
from tests.contracts.questions import question, staged_url
from tests.contracts.wire_chunks import ROUTE

PROMPT = "Explain the same cancellation event across all evidence."
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


def build(asked: Question, version: str = "0.8.17", limits: Limits | None = None) -> ChatRequest:
    return build_request(asked, profile=profile(version), route=ROUTE, staged_url=staged_url, limits=limits or Limits())


def body(asked: Question, version: str = "0.8.17") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(build(asked, version).body)
    return document


def test_the_worked_request_is_735_bytes_on_the_wire() -> None:
    """Our messages with the fields of the published example, two of which our requests leave out."""
    request = build(question("image", "audio", "video", PROMPT, temperature="0.0"))
    document = json.loads(request.body)
    fields = {name: document[name] for name in ("model", "messages", "max_tokens", "temperature")}
    worked = wire_json(fields | {"seed": 7, "stream": True, "stream_options": {"include_usage": True}})
    assert len(worked) == 735
    assert b'"max_tokens":64,"temperature":0.0,"seed":7,"stream":true,"stream_options"' in worked


@pytest.mark.parametrize("version", PROFILES)
def test_only_the_contracts_fields_are_sent(version: str) -> None:
    """The same closed list under every profile: no seed, no stream_options, always streaming, no thinking."""
    got = body(question("image", PROMPT), version)
    assert list(got) == ["model", "messages", "max_tokens", "temperature", "stream", "enable_thinking"]
    assert (got["model"], got["stream"], got["enable_thinking"], got["max_tokens"]) == (ROUTE, True, False, 64)


@pytest.mark.parametrize("name", ["model", "messages", "max_tokens", "temperature", "stream", "enable_thinking"])
def test_an_engine_that_does_not_honour_what_every_request_has_is_asked_nothing(name: str) -> None:
    """Whether a field is sent is the profile's say; without one of these a request would not mean what it says."""
    old = profile("0.8.2")
    engine: Profile = replace(old, fields={**old.fields, name: FieldUse.IGNORED})
    with pytest.raises(ContractRefused, match=f"request-field: .* {name}"):
        build_request(question("Why?"), profile=engine, route=ROUTE, staged_url=staged_url, limits=Limits())


def test_an_answer_form_that_would_be_ignored_is_refused() -> None:
    """Nothing would guide the answer."""
    old = profile("0.8.2")
    deaf = replace(old, fields={**old.fields, "response_format": FieldUse.IGNORED})
    asked = question("Why?", answer_schema=SCHEMA)
    with pytest.raises(ContractRefused, match="answer-form"):
        build_request(asked, profile=deaf, route=ROUTE, staged_url=staged_url, limits=Limits())


def test_parts_are_serialised_in_the_bundles_order() -> None:
    """One message, each part by its kind, media by their staged path."""
    (message,) = body(question("image", "audio", "video", PROMPT))["messages"]
    assert message["role"] == "user"
    assert [part["type"] for part in message["content"]] == ["image_url", "audio_url", "video_url", "text"]
    assert message["content"][1] == {
        "type": "audio_url",
        "audio_url": {"url": f"file:///srv/mosaic-evidence/{'2' * 64}.wav"},
    }
    assert message["content"][3] == {"type": "text", "text": PROMPT}


def test_where_the_engine_regroups_each_part_has_a_message() -> None:
    """Labelled media and then the question, all from the user."""
    request = build(question("image", "audio", "video", PROMPT), "0.9.5")
    messages = json.loads(request.body)["messages"]
    assert request.ordering_form is OrderingForm.MESSAGE_PER_PART
    texts = [[part.get("text", part["type"]) for part in message["content"]] for message in messages]
    assert texts == [["image_url", "Image 1"], ["Audio 1", "audio_url"], ["video_url", "Video 1"], [PROMPT]]
    assert {message["role"] for message in messages} == {"user"}


def test_an_answer_form_is_a_named_json_schema() -> None:
    """With the grammar's option where the profile takes it, whatever the bundle says; the question is the same."""
    asked = question("Why?", answer_schema=SCHEMA | {"x-guidance": {"whitespace_flexible": True}})
    plain, guided = (body(asked, version)["response_format"] for version in ("0.8.17", "0.9.5"))
    assert plain == {"type": "json_schema", "json_schema": {"name": "answer", "schema": asked.answer_schema}}
    assert guided["json_schema"]["schema"] == SCHEMA | {"x-guidance": {"whitespace_flexible": False}}
    assert question_digest(asked, OrderingForm.ONE_MESSAGE) == build(asked, "0.9.5").question_digest


@pytest.mark.parametrize(("text", "number"), [("0", b"0.0"), ("0.0", b"0.0"), ("0.70", b"0.7"), ("2", b"2.0")])
def test_a_temperature_is_a_number_on_the_wire(text: str, number: bytes) -> None:
    """Written as the published example writes it."""
    assert b'"temperature":' + number + b"," in build(question("Why?", temperature=text)).body


@pytest.mark.parametrize("text", ["", "-1", "2.1", "1e0", "nan", "0.1234567", "01", " 0", "0\n", "\u0661"])
def test_other_temperatures_are_refused(text: str) -> None:
    """A decimal from 0 to 2, and nothing that only float() would read."""
    with pytest.raises(ContractRefused, match="temperature"):
        build(question("Why?", temperature=text))


BOUNDS = {
    "question-empty": (question(), Limits()),
    "question-parts": (question("image", "image", "Why?"), Limits().changed({"question_parts": 2})),
    "question-images": (question("image", "image", "Why?"), Limits().changed({"question_images": 1})),
    "question-audios": (question("audio", "audio", "Why?"), Limits().changed({"question_audios": 1})),
    "question-videos": (question("video", "video", "Why?"), Limits().changed({"question_videos": 1})),
    "prompt-bytes": (question("äöü", "x"), Limits().changed({"prompt_bytes": 6})),
    "prompt-text": (question("\ud800"), Limits()),
    "output-tokens": (question("Why?", max_output_tokens=65), Limits().changed({"output_tokens": 64})),
    "request-bytes": (question("Why?"), Limits().changed({"request_bytes": 200})),
    "ordering-strict": (question("Why?", "image", ordering=Ordering.STRICT), Limits()),
}


@pytest.mark.parametrize("rule", BOUNDS)
def test_each_bound_refuses_by_its_own_name(rule: str) -> None:
    """Bounds are independent: none hides another."""
    asked, limits = BOUNDS[rule]
    with pytest.raises(ContractRefused) as refused:
        build(asked, limits=limits)
    assert refused.value.rule == rule


def test_no_bound_hides_another() -> None:
    """A question that breaks six is told all six at once."""
    asked = question("image", "audio", "video", "Why?", max_output_tokens=9)
    names = ("question_parts", "question_images", "question_audios", "question_videos", "prompt_bytes", "output_tokens")
    with pytest.raises(ContractRefused) as refused:
        build(asked, limits=Limits().changed(dict.fromkeys(names, 0)))
    told = str(refused.value)
    assert [name for name in names if f"{name.replace('_', '-')}: " not in told] == []


def test_bounds_are_inclusive_maxima() -> None:
    """Exactly as much as allowed is allowed; no output tokens are too few."""
    asked = question("image", "äöü")
    size = len(build(asked).body)
    exact = Limits().changed({"question_parts": 2, "prompt_bytes": 6, "output_tokens": 64, "request_bytes": size})
    assert len(build(asked, limits=exact).body) == size
    with pytest.raises(ContractRefused, match="output-tokens"):
        build(replace(asked, max_output_tokens=0))


def test_a_request_names_what_it_was_built_from() -> None:
    """Digest of the wire bytes, and the digests of artifacts and locators in the media's order."""
    asked = question("image", "Why?", "image")
    request = build(asked)
    assert request.digest == Digest.of(request.body)
    assert request.artifact_digests == (Digest("1" * 64), Digest("3" * 64))
    assert request.locator_digests == tuple(locator_digest(part.locator) for part in asked.media)
    assert (request.route, request.max_tokens) == (ROUTE, 64)


BASE = question("image", "audio", "Why?")
FIRST = BASE.media[0]
CHANGED = {
    "part order": replace(BASE, parts=BASE.parts[::-1]),
    "a medium": replace(BASE, parts=(question("image", "image").parts[1], *BASE.parts[1:])),
    "a text": replace(BASE, parts=(*BASE.parts[:2], *question("Why!").parts)),
    "a transformation": replace(
        BASE, parts=(MediaPart(FIRST.artifact, Derived(Digest("9" * 64), {"frames": 8})), *BASE.parts[1:])
    ),
    "budget": replace(BASE, max_output_tokens=65),
    "temperature": replace(BASE, temperature="0.1"),
    "answer form": replace(BASE, answer_schema=SCHEMA),
}


@pytest.mark.parametrize("name", CHANGED)
def test_every_part_of_a_question_is_in_its_digest(name: str) -> None:
    """Any change of what is asked is another question."""
    form = OrderingForm.ONE_MESSAGE
    assert question_digest(CHANGED[name], form) != question_digest(BASE, form)


def test_the_ordering_form_is_in_the_digest() -> None:
    """The same parts in another form show the model another prompt."""
    assert len({question_digest(BASE, form) for form in OrderingForm}) == 2


def test_a_question_is_the_same_on_every_host() -> None:
    """Route, staging, transport, spelling of the temperature and the source of an original are not in the digest."""
    here = build(BASE)
    there = build_request(
        replace(BASE, temperature="0.00"),
        profile=profile("0.8.2"),
        route="other",
        staged_url=lambda artifact: f"data:{artifact.media_type};base64,AAAA",
        limits=Limits(),
    )
    moved = MediaPart(FIRST.artifact, UrlSource.of("https://example.org/a.png?token=1"))
    assert here.question_digest == there.question_digest
    assert here.digest != there.digest
    assert here.question_digest == build(replace(BASE, parts=(moved, *BASE.parts[1:]))).question_digest
    assert isinstance(FIRST.locator, FileSource)
    transformations = [{"frames": 8}, {"frames": 9}]
    derived = [MediaPart(FIRST.artifact, Derived(Digest("9" * 64), each)) for each in transformations]
    assert len({build(replace(BASE, parts=(each, *BASE.parts[1:]))).question_digest for each in derived}) == 2
