"""Parameters beyond the budget: sent where they are honoured, else refused or noted, and nothing else expressible."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from typing import Any

import msgspec
import pytest

from contracts.bundle import BundleQuestion, parse_bundle
from contracts.errors import ContractRefused, InputError
from contracts.limits import Limits
from contracts.ordering import OrderingForm
from contracts.parameters import NotHonoured, ParametersDocument, judge_parameters, parameters_of
from contracts.profile import PROFILES, Profile, profile
from contracts.profiles_table import FieldUse
from contracts.question import Question
from contracts.request import ChatRequest, build_request, question_digest, question_document
from tests.contracts.questions import question, staged_url
from tests.contracts.wire_chunks import ROUTE

NAMES = ParametersDocument.__struct_fields__
ALL = ParametersDocument(
    seed=7, top_p=0.9, top_k=40, min_p=0.05, presence_penalty=-0.5, frequency_penalty=1.0, repetition_penalty=1.1,
    stop=("END", "\n\n"),
)  # fmt: skip
DANGEROUS = (
    *("web_search_options", "max_tool_rounds", "session_id", "tools", "tool_choice", "files", "n", "stream", "grammar"),
    *("logit_bias", "logprobs", "response_format", "enable_code_execution", "agent_permission", "model", "messages"),
)


def engine(use: FieldUse | None) -> Profile:
    """A profile that has every parameter as `use`, or does not know it."""
    known = profile("0.8.17")
    fields = {name: value for name, value in known.fields.items() if name not in NAMES}
    return replace(known, fields=fields if use is None else {**fields, **dict.fromkeys(NAMES, use)})


def build(asked: Question, use: FieldUse | None) -> ChatRequest:
    """The request of `asked` to an engine that has every parameter as `use`."""
    return build_request(asked, profile=engine(use), route=ROUTE, staged_url=staged_url, limits=Limits())


def parsed(**question_keys: Any) -> BundleQuestion:
    """The question of a bundle with these keys in it."""
    asked = {"id": "q", "parts": [{"text": "Why?"}], **question_keys}
    text = json.dumps({"version": 1, "id": "b", "questions": [asked]})
    return parse_bundle(text.encode(), name="b.json", limits=Limits()).questions[0]


def test_what_the_engine_honours_is_sent_as_numbers() -> None:
    """Beside the temperature, in one order, whatever the bundle's."""
    request = build(question("Why?", parameters=ALL), FieldUse.HONOURED)
    body = json.loads(request.body)
    assert list(body)[3:13] == ["temperature", *NAMES, "stream"]
    sent = {name: body[name] for name in NAMES}
    assert sent == msgspec.to_builtins(ALL) | {"stop": ["END", "\n\n"]}
    assert request.not_honoured == ()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("use", [FieldUse.IGNORED, None], ids=["ignored", "unknown to the table"])
def test_what_the_engine_ignores_is_refused_or_noted_and_never_sent(name: str, use: FieldUse | None) -> None:
    """Refused by field and version unless the bundle chose to have it recorded."""
    alone = ParametersDocument(**{name: getattr(ALL, name)})
    with pytest.raises(ContractRefused) as refused:
        build(question("Why?", parameters=alone), use)
    assert refused.value.rule == "parameter-not-honoured"
    assert refused.value.reason.startswith(f"0.8.17 ignores {name};")
    noted = build(question("Why?", parameters=alone, not_honoured=NotHonoured.RECORD), use)
    assert noted.not_honoured == (name,)
    assert noted.body == build(question("Why?"), use).body


class _Otherwise(str, Enum):
    """What a table may say of a field besides honoured and ignored."""

    REPORTED = "deviates"


def test_what_deviates_is_refused_whatever_the_bundle_chose() -> None:
    """Neither sending it nor leaving it out would be what was asked."""
    others: list[Any] = [use for use in FieldUse if use not in (FieldUse.HONOURED, FieldUse.IGNORED)]
    for use in [*others, _Otherwise.REPORTED]:
        for choice in NotHonoured:
            with pytest.raises(ContractRefused, match="parameter-deviates") as refused:
                judge_parameters(ALL, engine(use), choice)
            assert f"0.8.17 has seed as {use.value}" in refused.value.reason


@pytest.mark.parametrize("version", PROFILES)
def test_no_known_engine_is_sent_a_seed(version: str) -> None:
    """Every release ignores it, so no request ever holds it."""
    asked = question("Why?", parameters=ParametersDocument(seed=7))
    recorded = replace(asked, not_honoured=NotHonoured.RECORD)
    request = build_request(recorded, profile=profile(version), route=ROUTE, staged_url=staged_url, limits=Limits())
    assert b"seed" not in request.body
    assert request.not_honoured == ("seed",)
    with pytest.raises(ContractRefused, match="parameter-not-honoured"):
        build_request(asked, profile=profile(version), route=ROUTE, staged_url=staged_url, limits=Limits())


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_part_of_the_question(name: str) -> None:
    """Each alone changes the digest; the choice of what happens to ignored ones does not."""
    form = OrderingForm.ONE_MESSAGE
    bare, asked = question("Why?"), question("Why?", parameters=ParametersDocument(**{name: getattr(ALL, name)}))
    assert question_digest(asked, form) != question_digest(bare, form)
    recorded = replace(asked, not_honoured=NotHonoured.RECORD)
    assert question_digest(asked, form) == question_digest(recorded, form)
    assert "parameters" not in question_document(bare, form)


def test_identities_hold_no_floats_and_read_back() -> None:
    """Decimals are text; what is not in that form is refused by name."""
    assert ALL.identity() == {
        "seed": 7, "top_p": "0.9", "top_k": 40, "min_p": "0.05", "presence_penalty": "-0.5",
        "frequency_penalty": "1", "repetition_penalty": "1.1", "stop": ["END", "\n\n"],
    }  # fmt: skip
    assert parameters_of(ALL.identity()) == ALL
    assert parameters_of({}) == ParametersDocument()


@pytest.mark.parametrize(
    "identity",
    [{"seed": "7"}, {"top_p": 0.9}, {"top_p": "0.90"}, {"top_p": "nan"}, {"top_p": "2"}, {"tools": []}, {"stop": "a"},
     {"seed": True}, [], None, {"stop": [1]}, {"top_k": 1.0}, {"top_p": "1e-1"}, {"seed": 2**53}],
)  # fmt: skip
def test_other_forms_of_an_identity_are_refused(identity: Any) -> None:
    """A receipt from elsewhere may hold anything."""
    with pytest.raises(ContractRefused, match=r"^parameters:"):
        parameters_of(identity)


@pytest.mark.parametrize("name", DANGEROUS)
def test_nothing_else_can_be_asked_for(name: str) -> None:
    """Neither as a parameter nor beside them: no tool, search, session, second choice or quiet answer."""
    for keys in ({"parameters": {name: 1}}, {name: 1}):
        with pytest.raises(InputError, match="unknown key") as refused:
            parsed(**keys)
        assert refused.value.rule == "bundle-unknown-key"


@pytest.mark.parametrize(
    "parameters",
    [{"seed": -1}, {"seed": 0.5}, {"top_p": 0}, {"top_p": 1.1}, {"top_k": 0}, {"min_p": 2}, {"stop": []},
     {"stop": [""]}, {"stop": "END"}, {"stop": ["a"] * 5}, {"presence_penalty": 2.1}, {"repetition_penalty": 0},
     {"seed": None}],
)  # fmt: skip
def test_values_out_of_range_are_refused_at_the_bundles_door(parameters: dict[str, Any]) -> None:
    """By type or range, before anything is fetched."""
    with pytest.raises(InputError, match="bundle-type"):
        parsed(parameters=parameters)


def test_a_questions_parameters_stand_for_the_bundles_whole() -> None:
    """Defaults of the bundle count where the question says nothing, and are not mixed in where it does."""
    asked = {"id": "q", "parts": [{"text": "Why?"}]}
    document = {
        "version": 1, "id": "b", "parameters": {"seed": 7, "top_k": 5}, "not_honoured": "record",
        "questions": [asked, asked | {"id": "r", "parameters": {"top_p": 1}, "not_honoured": "refuse"}],
    }  # fmt: skip
    first, second = parse_bundle(json.dumps(document).encode(), name="b.json", limits=Limits()).questions
    assert (first.parameters, first.not_honoured) == (ParametersDocument(seed=7, top_k=5), NotHonoured.RECORD)
    assert (second.parameters, second.not_honoured) == (ParametersDocument(top_p=1.0), NotHonoured.REFUSE)
    assert first.to_json()["parameters"] == {"seed": 7, "top_k": 5}
    assert second.to_json()["parameters"] == {"top_p": "1"}
