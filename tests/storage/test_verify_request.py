"""A request is exactly what the builder makes of the receipt, and its answer form judges again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.digest import canonical_digest, canonical_json, wire_json
from contracts.errors import InputError
from contracts.outcome import Outcome
from contracts.receipt import receipt_id
from contracts.request import question_document
from storage.disk_blobs import DiskBlobStore
from storage.verify import VerdictName, verify_receipt
from tests.contracts.wire_chunks import DONE, USAGE, chunk
from tests.receipt_samples import (
    changed,
    question,
    receipt,
    request_for,
)
from tests.storage.verifying import rules, verify, with_answer, with_body, with_question


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store."""
    return DiskBlobStore(tmp_path)


BODIES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "two media swapped": ("request-artifacts", lambda b: b | {"messages": b["messages"][::-1]}),
    "a medium left out": ("request-artifacts", lambda b: b | {"messages": b["messages"][1:]}),
    "a message more": ("request-artifacts", lambda b: b | {"messages": [*b["messages"], b["messages"][0]]}),
    "no text": ("request-texts", lambda b: b | {"messages": [b["messages"][0], b["messages"][2]]}),
    "a text more": (
        "request-texts",
        lambda b: b | {"messages": [*b["messages"], {"role": "user", "content": [{"type": "text", "text": "Say 3."}]}]},
    ),
    "a system message": (
        "request-bytes",
        lambda b: b | {"messages": [{**b["messages"][0], "role": "system"}, *b["messages"][1:]]},
    ),
    "a message without content": ("request-form", lambda b: b | {"messages": [{"role": "user"}, *b["messages"]]}),
    "a message that is a string": (
        "request-form",
        lambda b: b | {"messages": [{"role": "user", "content": "Say 3."}, *b["messages"]]},
    ),
    "an empty message": (
        "request-bytes",
        lambda b: b | {"messages": [*b["messages"], {"role": "user", "content": []}]},
    ),
    "another temperature": ("request-fields", lambda b: b | {"temperature": 1.5}),
    "a temperature left out": ("request-fields", lambda b: {k: v for k, v in b.items() if k != "temperature"}),
    "tools": ("request-fields", lambda b: b | {"tools": []}),
    "a search": ("request-fields", lambda b: b | {"web_search_options": {}}),
    "reasoning": ("request-fields", lambda b: b | {"enable_thinking": True}),
    "an answer form": (
        "request-fields",
        lambda b: b | {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}},
    ),
    "fields in another order": ("request-bytes", lambda b: dict(reversed(b.items()))),
    "one for true": ("request-bytes", lambda b: b | {"stream": 1}),
    "another model": ("request-route", lambda b: b | {"model": "other"}),
    "another budget": ("request-budget", lambda b: b | {"max_tokens": 65}),
    "no messages": ("request-form", lambda _: {}),
    "a list": ("request-form", lambda b: [b]),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_request_that_asked_something_else_is_invalid(blobs: DiskBlobStore, what: str) -> None:
    """The request's blob is whole, and is not what the receipt says was asked."""
    rule, edit = BODIES[what]
    body = edit(msgspec.json.decode(request_for(question()).body))
    verdict = verify(with_body(blobs, receipt(blobs), wire_json(body)), blobs)
    assert rule in rules(verdict)
    assert verdict.verdict is VerdictName.INVALID


STAGED = b"file:///srv/evidence/acme/"


FOLDERS = {
    "the network": b"https://srv/evidence/acme/",
    "another tenant's folder": b"file:///srv/evidence/acmf/",
    "another host": b"file://srv/evidence/acme/",
    "a query": b"file:///srv/evidence/?acme/",
    "nowhere": b"",
}


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_media_that_were_not_staged_files_do_not_count(blobs: DiskBlobStore, folder: bytes) -> None:
    """A request that named a URL on the network, or a file of somebody else, named no artifact."""
    body = request_for(question()).body.replace(STAGED, folder)
    assert rules(verify(with_body(blobs, receipt(blobs), body), blobs)) == {"request-artifacts"}


def test_all_media_were_staged_in_one_folder_wherever_it_is(blobs: DiskBlobStore) -> None:
    """The receipt does not say where; the names beneath it are the artifacts' own."""
    body = request_for(question()).body
    moved = body.replace(STAGED, b"file:///mnt/x%20y/acme/")
    assert verify(with_body(blobs, receipt(blobs), moved), blobs).findings == ()
    for other in (body.replace(STAGED, b"file:///mnt/acme/", 1), body.replace(b".png", b".gif", 1)):
        assert rules(verify(with_body(blobs, receipt(blobs), other), blobs)) == {"request-artifacts"}


@pytest.mark.parametrize("folder", [b"file:///srv/evidence/", b"file:///"])
def test_a_flat_folder_counts_where_the_receipt_says_that_staging_was_flat(blobs: DiskBlobStore, folder: bytes) -> None:
    """And nothing but a file of this host does then, either; nor any other word."""
    asked = with_body(blobs, receipt(blobs), request_for(question()).body.replace(STAGED, folder))
    assert rules(verify(asked, blobs)) == {"request-artifacts"}
    assert asked.request is not None
    flat = msgspec.structs.replace(asked, request=msgspec.structs.replace(asked.request, staging="flat"))
    assert verify(flat, blobs).findings == ()
    for other in (FOLDERS["the network"], FOLDERS["another host"], FOLDERS["a query"], FOLDERS["nowhere"]):
        body = request_for(question()).body.replace(STAGED, other)
        assert rules(verify(with_body(blobs, flat, body), blobs)) == {"request-artifacts"}


@pytest.mark.parametrize(
    "edit",
    [lambda body: body + b" ", lambda body: body.replace(b'"stream":true', b'"stream":true,"stream":true'),
     lambda body: body.replace(b"circles", b"\\u0063ircles")],
    ids=["a space", "a key twice", "an escape"],
)  # fmt: skip
def test_a_request_is_its_bytes(blobs: DiskBlobStore, edit: Any) -> None:
    """What some reader takes for the same is not what the builder made."""
    body = edit(request_for(question()).body)
    assert rules(verify(with_body(blobs, receipt(blobs), body), blobs)) & {"request-bytes", "request-form"}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [('{"n": 2}', Outcome.COMPLETE), ('{"n": "two"}', Outcome.ANSWER_INVALID)],
    ids=["satisfied", "not satisfied"],
)
def test_an_answer_form_is_checked_again(blobs: DiskBlobStore, text: str, outcome: Outcome) -> None:
    """The schema in the question's document judges the stream's text, as it did the first time."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    document = receipt(blobs, chunk(text, finish="stop", usage=USAGE) + DONE)
    request = request_for(replace(question(), answer_schema=schema))
    document = with_body(blobs, document, request.body)
    invalid = outcome is Outcome.ANSWER_INVALID
    document = changed(
        document,
        question=question_document(replace(question(), answer_schema=schema), request.ordering_form),
        question_digest=str(request.question_digest),
        outcome=outcome,
        rule="answer-schema" if invalid else None,
        **with_answer(document, schema_digest=str(canonical_digest(schema))),
    )
    assert verify(document, blobs).findings == ()
    other = Outcome.COMPLETE if invalid else Outcome.ANSWER_INVALID
    swapped = changed(document, outcome=other, rule=None if invalid else "answer-schema")
    assert rules(verify(swapped, blobs)) == {"stream-outcome"}
    without = request_for(question()).body
    assert rules(verify(with_body(blobs, document, without), blobs)) == {"request-fields"}
    reordered = request_for(replace(question(), answer_schema=dict(reversed(schema.items())))).body
    assert verify(with_body(blobs, document, reordered), blobs).findings == ()


HOSTILE: list[Any] = [
    {"pattern": "("}, {"pattern": "^(a+)+$"}, {"type": "objekt"}, {"properties": 3}, {"required": 5}, {"$ref": "#"},
    {"$ref": "#/$defs/none"}, {"$ref": "https://example.org"}, {"$ref": 1}, {"allOf": {}}, {"items": []}, [], 3, True,
    {"multipleOf": 0}, {"minimum": "a"}, {"enum": {}}, {"$schema": "x"}, {"x-guidance": 1, "type": "string"},
]  # fmt: skip


ANY_SCHEMA = st.sampled_from(HOSTILE) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "pattern", "items", "$ref", "$defs", "enum", "allOf", "required"])
            | st.text(max_size=2),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(schema=ANY_SCHEMA, key=st.sampled_from(["answer_schema", "max_output_tokens", "temperature", "parts", "x"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_a_question_comes_to_a_verdict(blobs: DiskBlobStore, schema: Any, key: str) -> None:
    """Verification raises nothing, whatever a receipt holds; only what was asked is valid."""
    document = receipt(blobs, chunk('{"a": ["aaaa!", 1.5]}', finish="stop", usage=USAGE) + DONE)
    assert document.question is not None
    try:
        forged = changed(document, **with_question(document, **{key: schema}))
        data = forged.to_bytes()
    except InputError:
        return
    verdict = verify_receipt(receipt_id(data), data, blobs)
    same = key in document.question and canonical_json(document.question[key]) == canonical_json(schema)
    assert (verdict.verdict is VerdictName.VALID) == same


def test_a_hostile_answer_form_is_named(blobs: DiskBlobStore) -> None:
    """By the rule by which a bundle with it would have been refused."""
    document = receipt(blobs)
    for schema, rule in (
        ({"pattern": "("}, "schema-pattern"),
        ({"$ref": "#"}, "schema-reference"),
        ([], "schema-form"),
    ):
        assert rule in rules(verify(changed(document, **with_question(document, answer_schema=schema)), blobs))
