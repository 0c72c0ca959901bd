"""The bundle: what is read, with which defaults, and what its digest and assertions say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.artifact import Modality
from contracts.bundle import Bundle, apply_assertions, parse_bundle
from contracts.digest import Digest
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.locator import FileSource, UrlSource
from contracts.parameters import decimal_string
from contracts.question import Ordering, TextPart

KINDS = [modality.value for modality in Modality]
YAML = """\
version: 1
id: b1
tenant: acme
policy: public-web
limits: {output_tokens: 100}
temperature: 0.7
max_output_tokens: 64
questions:
  - id: q1
    parts:
      - image: https://example.org/a.png?token=s3cret
        sha256: 000000000000000000000000000000000000000000000000000000000000000a
        collected_at: 2026-11-01T10:00:00Z
        collector: a desk
      - text: What?
      - audio: sounds/a.wav
    labels: {expected: no, year: "2024"}
  - id: q2
    parts: [{text: Say it as JSON.}]
    answer: {json_schema: {type: object, maximum: 0.5}}
    temperature: 0
    max_output_tokens: 8
    ordering: strict
    release: other-1
"""


def parse(text: str, name: str = "b.yaml") -> Bundle:
    return parse_bundle(text.encode(), name=name, limits=Limits())


def test_parts_keep_their_order_and_what_is_said_about_them() -> None:
    """Parts come in the order written, each medium with its digest and provenance."""
    question = parse(YAML).questions[0]
    image, audio = question.media
    assert question.parts == (image, TextPart("What?"), audio)
    assert (image.modality, image.sha256, image.collector) == (Modality.IMAGE, Digest(f"{10:064x}"), "a desk")
    assert (image.is_url, image.collected_at) == (True, "2026-11-01T10:00:00Z")
    assert isinstance(image.source, UrlSource)
    assert "s3cret" not in image.source.url
    assert (audio.is_url, audio.source) == (False, FileSource("sounds/a.wav"))


def test_a_question_overrides_the_defaults_at_the_top() -> None:
    """The top's values hold for all questions that say nothing themselves."""
    first, second = parse(YAML).questions
    assert (first.max_output_tokens, first.temperature, first.ordering, first.release) == (
        64,
        "0.7",
        Ordering.AUTO,
        None,
    )
    assert (second.max_output_tokens, second.temperature, second.ordering) == (8, "0", Ordering.STRICT)
    assert second.release == "other-1"
    assert (first.answer_schema, second.answer_schema) == (None, {"type": "object", "maximum": 0.5})


def test_yaml_words_are_those_of_yaml_1_2() -> None:
    """`no` is text, an unquoted date is text, and a quoted number is text."""
    assert parse(YAML).questions[0].labels == {"expected": "no", "year": "2024"}


def test_yaml_and_json_of_one_bundle_have_one_digest() -> None:
    """The digest is that of the meaning, not of the layout."""
    minimal = "version: 1\nid: b\nquestions:\n- id: q\n  parts:\n  - image: a.png\n  - text: 'What? \u00e9'\n"
    value = {
        "questions": [{"parts": [{"image": "a.png"}, {"text": "What? \u00e9"}], "id": "q"}],
        "id": "b",
        "version": 1,
    }
    assert parse(minimal).digest() == parse(json.dumps(value), "b.json").digest()
    assert parse(minimal).digest() != parse(minimal.replace("a.png", "b.png")).digest()


@pytest.mark.parametrize(
    "change", [("a desk", "a bench"), ("0.7", "0.8"), ("acme", "acne"), ("strict", "auto"), ("0.5", "1")]
)
def test_every_word_of_a_bundle_is_in_its_digest(change: tuple[str, str]) -> None:
    """A change of provenance, parameter or assertion changes the digest."""
    assert parse(YAML).digest() != parse(YAML.replace(*change)).digest()


def test_assertions_confirm_and_narrow() -> None:
    """A bundle that names the tenant and policy in force runs, with its own narrower limits."""
    narrowed = apply_assertions(parse(YAML), tenant="acme", policy_name="public-web", limits=Limits())
    assert narrowed == Limits().changed({"output_tokens": 100})


@pytest.mark.parametrize(
    ("tenant", "policy", "limits", "rule"),
    [
        ("other", "public-web", {}, "bundle-tenant"),
        ("acme", "public-https", {}, "bundle-policy"),
        ("acme", "public-web", {"output_tokens": 99}, "limits-only-narrow"),
        ("acme", "public-web", {"question_parts": 2}, "bundle-narrowed"),
        ("acme", "public-web", {"prompt_bytes": 4}, "bundle-narrowed"),
        ("acme", "public-web", {"labels": 1}, "bundle-narrowed"),
        ("acme", "public-web", {"label_bytes": 7}, "bundle-narrowed"),
        ("acme", "public-web", {"schema_bytes": 10}, "bundle-narrowed"),
        ("acme", "public-web", {"bundle_questions": 1}, "bundle-narrowed"),
    ],
)
def test_assertions_never_widen(tenant: str, policy: str, limits: dict[str, float], rule: str) -> None:
    """Another tenant or policy, a wider limit, or a question over a narrowed limit is refused by name."""
    with pytest.raises(InputError) as refused:
        apply_assertions(parse(YAML), tenant=tenant, policy_name=policy, limits=Limits().changed(limits))
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((f"question_{kind}s", {"parts": [{kind: "a"}, {kind: "b"}, {"text": "What?"}]}) for kind in KINDS),
        ("question_attempts", {"retry": {"attempts": 2}}),
    ],
)
def test_a_question_over_a_deployments_limit_is_refused(name: str, more: dict[str, Any]) -> None:
    """Also where the bundle was parsed under wider ones; exactly the limit is allowed."""
    asked = {"id": "q", "parts": [{"text": "What?"}], **more}
    bundle = parse(json.dumps({"version": 1, "id": "b", "questions": [asked]}))
    for most in (2, 1):
        limits = Limits().changed({name: most})
        if most == 2:
            assert apply_assertions(bundle, tenant="acme", policy_name="public-web", limits=limits) == limits
            continue
        with pytest.raises(InputError, match=rf"bundle-narrowed: .*limits\.{name}"):
            apply_assertions(bundle, tenant="acme", policy_name="public-web", limits=limits)


def test_a_question_over_the_limit_its_own_bundle_narrows_is_refused() -> None:
    """Narrowing is checked against the questions, not only against the deployment."""
    with pytest.raises(InputError, match=r"b\.yaml:7: expected at most 10, got 64") as refused:
        parse(YAML.replace("limits: {output_tokens: 100}", "limits: {output_tokens: 10}"))
    assert refused.value.rule == "bundle-tokens"


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ("output_tokens: 5000", "limits-only-narrow"),
        ("output_token: 5", "limits-unknown"),
        ("labels: 1", "bundle-labels"),
    ],
)
def test_the_line_of_a_limit_that_cannot_be_is_named(asked: str, rule: str) -> None:
    """A wider or unknown limit is refused where it stands, and a narrower one holds for the bundle's own questions."""
    with pytest.raises(InputError, match=r"b\.yaml:(5|17): ") as refused:
        parse(YAML.replace("output_tokens: 100", asked))
    assert refused.value.rule == rule


@given(st.floats(min_value=0, max_value=2))
def test_a_decimal_string_reads_back_as_its_number(value: float) -> None:
    """float(decimal_string(x)) is x, in the plain form that identities hold."""
    text = decimal_string(value)
    assert float(text) == value
    assert "e" not in text.lower()
    assert not text.startswith("-")


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (-0.0, "0"), (1.0, "1"), (0.7, "0.7"), (1e-7, "0.0000001")])
def test_decimal_strings_have_one_form(value: float, text: str) -> None:
    """Whole numbers have no point, zero has no sign, small numbers no exponent."""
    assert decimal_string(value) == text
