"""The published schema of releases: what the parser accepts it accepts, and it is not stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from contracts.release_schema import release_schema, schema_text
from tests.contracts.releases import PLAN, WHOLE, changed, digest, embedded_release

SCHEMA = Path(__file__).parents[2] / "schemas" / "release.v1.json"
VALIDATOR = Draft202012Validator(release_schema())


def test_the_schema_is_what_the_structs_say() -> None:
    """schemas/release.v1.json is not stale: python -m contracts.release_schema > schemas/release.v1.json"""
    Draft202012Validator.check_schema(release_schema())
    assert json.loads(SCHEMA.read_text("utf-8")) == release_schema()
    assert SCHEMA.read_text("utf-8") == schema_text()


@pytest.mark.parametrize(
    "document",
    [PLAN, WHOLE, embedded_release().to_json()],
    ids=["the seed's plan", "everything", "the engine in the box"],
)
def test_what_the_parser_accepts_the_schema_accepts(document: dict[str, Any]) -> None:
    """Editors that check by the schema agree with us."""
    assert list(VALIDATOR.iter_errors(document)) == []


REFUSED: dict[str, dict[str, Any]] = {
    "a moving version": {"engine": "latest"},
    "all addresses": {"launch.host": "0.0.0.0"},
    "the UI": {"launch.ui": True},
    "a log of payloads": {"launch.log": "payloads.jsonl"},
    "an uppercase digest": {"build.binary": "sha256:" + "A" * 64},
    "no build": {"build.binary": None},
    "two builds": {"build.wheel": {"distribution": "mistralrs", "version": "0.8.17", "library": digest("1")}},
    "no limits": {"limits": None},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_for_its_form_the_schema_refuses(changes: dict[str, Any]) -> None:
    """The schema is not a looser second truth."""
    assert list(VALIDATOR.iter_errors(changed(PLAN, changes))) != []
