"""What a bundle must not be: each mistake is refused by its rule, with its line and what was expected."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from contracts.bundle import MAX_FINDINGS, Bundle, parse_bundle
from contracts.bundle_schema import bundle_schema, schema_text
from contracts.bundle_yaml import read_yaml
from contracts.errors import InputError
from contracts.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = Draft202012Validator(bundle_schema())
GOOD: dict[str, Any] = {
    "version": 1,
    "id": "b",
    "questions": [{"id": "q", "parts": [{"image": "a.png"}, {"text": "What?"}]}],
}


def parse(text: str, name: str = "b.yaml", limits: Limits | None = None) -> Bundle:
    return parse_bundle(text.encode(), name=name, limits=limits or Limits())


def refusal_of(data: bytes, name: str) -> InputError | None:
    try:
        parse_bundle(data, name=name, limits=Limits())
    except InputError as error:
        return error
    return None


def with_part(**part: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    document["questions"][0]["parts"][0] = part
    return document


def with_question(**keys: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    document["questions"][0].update(keys)
    return document


BAD_FOR_BOTH = {
    "another version": (GOOD | {"version": 2}, "bundle-type"),
    "an id with a space": (GOOD | {"id": "a b"}, "bundle-type"),
    "an id that ends in a line feed": (GOOD | {"id": "b\n"}, "bundle-type"),
    "a tenant with capitals": (GOOD | {"tenant": "Acme"}, "bundle-type"),
    "an unknown key": (GOOD | {"questionz": []}, "bundle-unknown-key"),
    "no questions": (GOOD | {"questions": []}, "bundle-questions"),
    "no parts": (with_question(parts=[]), "bundle-type"),
    "no prompt": (with_question(parts=[{"image": "a.png"}]), "bundle-prompt"),
    "a blank prompt": (with_question(parts=[{"text": " \n"}]), "bundle-prompt"),
    "a null": (with_question(release=None), "bundle-type"),
    "a temperature over 2": (with_question(temperature=2.1), "bundle-type"),
    "a temperature below 0": (with_question(temperature=-0.1), "bundle-type"),
    "no tokens": (with_question(max_output_tokens=0), "bundle-type"),
    "half a token": (with_question(max_output_tokens=1.5), "bundle-type"),
    "an ordering of its own": (with_question(ordering="loose"), "bundle-type"),
    "an answer form of its own": (with_question(answer="json"), "bundle-type"),
    "a label that is a number": (with_question(labels={"expected": 3}), "bundle-type"),
    "two kinds in a part": (with_part(image="a.png", audio="a.wav"), "bundle-part-kind"),
    "no kind in a part": (with_part(caption="a"), "bundle-part-kind"),
    "provenance of a text": (with_part(text="a", caption="b"), "bundle-part-kind"),
    "a short digest": (with_part(image="a.png", sha256="00"), "bundle-type"),
    "a date without zone": (with_part(image="a.png", collected_at="2026-11-01T10:00:00"), "bundle-type"),
    **{
        f"the location {location!r}": (with_part(image=location), "bundle-location")
        for location in (
            "/etc/passwd", "../a.png", "a/../../b.png", "..", "./a.png", "a//b.png", "a/", "a\\b.png", "C:\\a.png",
            "file:///etc/passwd", "data:image/png;base64,AAAA", "S3://bucket/key", "ftp://example.org/a", "sha256:00",
            "http://", "https:a.png", "http://example.org/a b", "a\u0001.png", "a.png\n", "//example.org/a.png",
        )
    },
}  # fmt: skip

BAD_FOR_THE_PARSER = {
    "a date that does not exist": (with_part(image="a.png", collected_at="2026-02-30T10:00:00Z"), "bundle-date"),
    "two questions of one id": (GOOD | {"questions": GOOD["questions"] * 2}, "bundle-duplicate-id"),
    "seventeen parts": (with_question(parts=[{"text": "a"}] * 17), "bundle-parts"),
    "a long prompt": (with_question(parts=[{"text": "a" * 65_537}]), "bundle-prompt"),
    "too many tokens": (with_question(max_output_tokens=4_097), "bundle-tokens"),
    "too many tokens for all": (GOOD | {"max_output_tokens": 4_097}, "bundle-tokens"),
    "a limit that is a fraction": (GOOD | {"limits": {"labels": 1.5}}, "limits-value"),
    "a limit of hundreds of digits": (GOOD | {"limits": {"labels": 10**350}}, "bundle-type"),
    "too many labels": (with_question(labels={str(i): "a" for i in range(33)}), "bundle-labels"),
    "a long label": (with_question(labels={"a": "\u00e9" * 512}), "bundle-labels"),
    "a schema that is none": (with_question(answer={"json_schema": {"type": "objekt"}}), "bundle-schema"),
    "a schema from elsewhere": (with_question(answer={"json_schema": {"$ref": "http://a/b"}}), "bundle-schema"),
    "a schema that may run for ever": (with_question(answer={"json_schema": {"pattern": "^(a+)+$"}}), "bundle-schema"),
    "a long schema": (with_question(answer={"json_schema": {"const": "a" * 65_536}}), "bundle-schema"),
}


def test_the_good_document_is_good() -> None:
    """What the tables below break is accepted by the schema and the parser."""
    VALIDATOR.validate(GOOD)
    assert parse(json.dumps(GOOD), "b.json").id == "b"


@pytest.mark.parametrize(("document", "rule"), BAD_FOR_BOTH.values(), ids=BAD_FOR_BOTH.keys())
def test_schema_and_parser_refuse(document: dict[str, Any], rule: str) -> None:
    """What a schema can say, the schema and the parser say alike."""
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(InputError) as refused:
        parse(json.dumps(document), "b.json")
    assert refused.value.rule == rule


@pytest.mark.parametrize(("document", "rule"), BAD_FOR_THE_PARSER.values(), ids=BAD_FOR_THE_PARSER.keys())
def test_the_parser_refuses_what_no_schema_can(document: dict[str, Any], rule: str) -> None:
    """Dates, sizes and ids are the parser's."""
    with pytest.raises(InputError) as refused:
        parse(json.dumps(document), "b.json")
    assert refused.value.rule == rule


BAD_TEXTS = {
    "a YAML key twice": ("version: 1\nversion: 1\n", "bundle-duplicate-key", 2),
    "an anchor": ("version: 1\nid: &a b\n", "bundle-yaml-feature", 2),
    "an alias": ("version: 1\nid: *a\n", "bundle-yaml-feature", 2),
    "a tag": ("version: 1\nid: !!str b\n", "bundle-yaml-feature", 2),
    "a second document": ("version: 1\n---\nversion: 1\n", "bundle-syntax", 2),
    "broken YAML": ("version: 1\nid: [\n", "bundle-syntax", 3),
    "a control character": ("version: 1\nid: a\x01\n", "bundle-syntax", 2),
    "an escaped NUL": ('version: 1\nid: "a\\0"\n', "bundle-nul", 2),
    "a number as key": ("version: 1\n2: a\n", "bundle-key-form", 2),
    "a list as key": ("version: 1\n? [a]\n: b\n", "bundle-key-form", 2),
    "a deep list": ("version: 1\nid: " + "[" * 65 + "]" * 65, "bundle-depth", 2),
    "a bare value": ("hello", "bundle-type", 1),
    "sixty-four levels": ("version: 1\nid: " + "[" * 63 + "]" * 63, "bundle-questions", 1),
    "nothing": ("", "bundle-type", 1),
    "a limit no double holds": ("version: 1\nid: a\nlimits:\n  total_s: 1e400\n", "bundle-number", 4),
    "a temperature no double holds": ("version: 1\ntemperature: -1e400\n", "bundle-number", 2),
}


@pytest.mark.parametrize(("text", "rule", "line"), BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_yaml_is_read_strictly(text: str, rule: str, line: int) -> None:
    """No feature that can hide or multiply content is read, and the line is named."""
    with pytest.raises(InputError) as refused:
        parse(text)
    assert (refused.value.rule, refused.value.reason.split(" ")[0]) == (rule, f"b.yaml:{line}:")


BAD_JSON = {
    "a key twice": ('{"version": 1,\n "id": "a",\n "id": "b"}', "bundle-duplicate-key", 3),
    "not a number": ('{"version": NaN}', "bundle-syntax", 1),
    "a comma too many": ('{"version": 1,\n}', "bundle-syntax", 2),
    "half a surrogate pair": ('{"version": 1,\n"id": "\\ud800"}', "bundle-syntax", 2),
    "an escaped NUL": ('{"version": 1,\n"id": "\\u0000"}', "bundle-nul", 2),
    "a hundred thousand brackets": ("\n" + "[" * 100_000, "bundle-depth", 2),
    "sixty-five levels": ('{"version": 1,\n"id": ' + "[" * 64 + "]" * 64 + "}", "bundle-depth", 2),
    "a limit no double holds": ('{"version": 1,\n"limits": {"total_s":\n1e400}}', "bundle-number", 3),
    "thousands of digits": ('{"version": ' + "9" * 5_000 + "}", "bundle-syntax", 1),
}


@pytest.mark.parametrize(("text", "rule", "line"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_json_is_read_strictly(text: str, rule: str, line: int) -> None:
    """What RFC 7493 forbids is refused, and the line is named."""
    with pytest.raises(InputError) as refused:
        parse(text, "b.JSON")
    assert (refused.value.rule, refused.value.reason.split(" ")[0]) == (rule, f"b.JSON:{line}:")


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    """Latin-1 is not guessed."""
    with pytest.raises(InputError, match=r"b\.yaml:2: expected UTF-8"):
        parse_bundle(b"version: 1\nid: \xe9\n", name="b.yaml", limits=Limits())


def test_size_and_count_are_bounded() -> None:
    """A bundle over its bytes is not read; one over its questions is refused."""
    text = json.dumps(GOOD)
    with pytest.raises(InputError, match=f"bundle-size: .*at most 10 bytes, got {len(text)}"):
        parse(text, limits=Limits().changed({"bundle_bytes": 10}))
    with pytest.raises(InputError, match="at most 0 questions, got 1"):
        parse(text, limits=Limits().changed({"bundle_questions": 0}))


def test_many_mistakes_are_told_at_once_each_with_line_and_help() -> None:
    """One reading names every mistake, the closest key, and the cure."""
    text = """\
version: 1
id: b
temprature: 0
questions:
  - id: q
    parts:
      - imgae: a.png
      - text: What?
  - id: r
    parts: [{text: What?}]
    labels:
      fine: "3"
      expected: 3
"""
    with pytest.raises(InputError) as refused:
        parse(text)
    assert refused.value.reason.splitlines() == [
        "b.yaml:3: unknown key 'temprature'; did you mean temperature? (bundle-unknown-key)",
        "b.yaml:7: unknown key 'imgae'; did you mean image? (bundle-unknown-key)",
        "b.yaml:13: expected: expected str, got int; quote it if it is meant as text (bundle-type)",
    ]


def test_the_list_of_mistakes_is_bounded() -> None:
    """A thousand mistakes make a message of a screen."""
    document = GOOD | {"questions": [{"id": f"q{i}", "parts": [{"image": "/a"}, {"text": "?"}]} for i in range(1_000)]}
    with pytest.raises(InputError) as refused:
        parse(json.dumps(document, indent=1), "b.json")
    *told, last = refused.value.reason.splitlines()
    assert len(told) == MAX_FINDINGS
    assert "stopped after" in last


def test_a_refusal_shows_no_token() -> None:
    """Of a URL that is refused, neither userinfo nor query is repeated."""
    with pytest.raises(InputError) as refused:
        parse(json.dumps(with_part(image="https://u:pw@/a b?token=s3cret")), "b.json")
    assert "pw" not in refused.value.reason
    assert "s3cret" not in refused.value.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [("no", "no"), ("12:30", "12:30"), ("0x1F", 31), ("0o17", 15), ("017", 17), ("~", None), ("1_000", "1_000"),
     ("1e3", 1000.0), (".5", 0.5), ("2026-01-01", "2026-01-01"), ("'1'", "1"), ("True", True), ("-", "-")],
)  # fmt: skip
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    """YAML 1.2.2 section 10.3.2, not the words of YAML 1.1."""
    read = read_yaml("b", f"a: {text}" if text != "-" else "a: '-'").value["a"]
    assert (read, type(read)) == (value, type(value))


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.sampled_from(["b.yaml", "b.json"]))
def test_any_bytes_are_a_bundle_or_an_input_error(data: bytes, name: str) -> None:
    """Garbage either parses or is refused; nothing else happens."""
    refusal = refusal_of(data, name)
    assert refusal is None or refusal.reason.startswith(name)


_KEYS = st.sampled_from(["version", "id", "questions", "parts", "image", "text", "labels", "answer", "limits", "x"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just(1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES, _KEYS, st.sampled_from(["top", "question", "part"]))
def test_any_value_anywhere_is_a_bundle_or_an_input_error(value: object, key: str, where: str) -> None:
    """A well-formed document with anything in any place parses or is refused, and the schema is never stricter."""
    document = copy.deepcopy(GOOD)
    question = document["questions"][0]
    {"top": document, "question": question, "part": question["parts"][0]}[where][key] = value
    refusal = refusal_of(json.dumps(document).encode(), "b.json")
    assert VALIDATOR.is_valid(document) if refusal is None else refusal.reason.startswith("b.json:")


def test_the_published_schema_is_fresh_and_a_schema() -> None:
    """The file in the repository is what the structs say now."""
    assert (ROOT / "schemas" / "bundle.v1.json").read_text("utf-8") == schema_text()
    Draft202012Validator.check_schema(bundle_schema())


def test_a_form_is_refused_at_the_line_of_what_is_wrong_with_it() -> None:
    """Deep in a schema, by the rule by which a run would refuse it."""
    schema: dict[str, Any] = {"properties": {"n": {"type": "number", "maximum": 1e16}, "s": {"pattern": "(a*)*"}}}
    text = json.dumps(with_question(answer={"json_schema": schema}), indent=1)
    lines = text.splitlines()
    number, pattern = (next(i for i, line in enumerate(lines, 1) if key in line) for key in ("maximum", "pattern"))
    with pytest.raises(InputError) as refused:
        parse(text, "b.json")
    assert refused.value.reason.startswith(f"b.json:{number}: schema-number: a number of 2^53")
    del schema["properties"]["n"]["maximum"]
    with pytest.raises(InputError, match=rf"b\.json:{pattern - 1}: schema-pattern: "):
        parse(json.dumps(with_question(answer={"json_schema": schema}), indent=1), "b.json")


@pytest.mark.parametrize("kind", ["image", "audio", "video"])
def test_parts_are_bounded_by_their_kind(kind: str) -> None:
    """Two of a kind where one is allowed are refused, whatever the others' bounds; one is not."""
    limits = Limits().changed({f"question_{kind}s": 1})
    one = with_question(parts=[{kind: "a"}, {"text": "What?"}])
    two = with_question(parts=[{kind: "a"}, {kind: "b"}, {"text": "What?"}])
    assert len(parse(json.dumps(one), limits=limits).questions) == 1
    with pytest.raises(InputError, match=f"bundle-parts: .*at most 1 {kind} parts, got 2"):
        parse(json.dumps(two), limits=limits)


def test_tries_are_bounded() -> None:
    """For a question and for the bundle's default."""
    for document in (with_question(retry={"attempts": 6}), GOOD | {"retry": {"attempts": 6}}):
        with pytest.raises(InputError, match=r"bundle-attempts: .*at most 5, got 6"):
            parse(json.dumps(document))
    with pytest.raises(InputError, match="bundle-type"):
        parse(json.dumps(with_question(retry={"attempts": 0})))
