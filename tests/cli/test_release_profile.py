"""`mosaic release profile`: all versions side by side, one with its sources, and everything as JSON."""

from __future__ import annotations

import json

import pytest

from contracts.profile import FACTS, PROFILES
from contracts.profile_words import FACT_WORDS, profile_document
from tests.command import Mosaic


def test_all_versions_side_by_side(mosaic: Mosaic) -> None:
    """Facts, fields, endpoints and flags, for people."""
    ended = mosaic("release", "profile")
    assert (ended.code, ended.err) == (0, "")
    for word in (*PROFILES, "media_transports", "web_search_options", "dangerous", "/v1/responses", "--paged-attn"):
        assert word in ended.out


@pytest.mark.parametrize("version", ["0.8.2", "0.9.5"])
def test_one_version_with_sources(mosaic: Mosaic, version: str) -> None:
    """How each fact is known, what each field does, and what errors mean."""
    ended = mosaic("release", "profile", version)
    assert ended.code == 0
    for word in ("measured", "read", "truncate_sequence", "prompt-too-long", "chat/completions"):
        assert word in ended.out


def test_everything_as_json(mosaic: Mosaic) -> None:
    """One object a version, or the one asked for, with every value, basis and source."""
    every, one = mosaic("release", "profile", "--json"), mosaic("release", "profile", "0.9.2", "--json")
    assert (every.code, one.code) == (0, 0)
    assert [row["version"] for row in every.objects] == list(PROFILES)
    assert every.objects == [json.loads(json.dumps(profile_document(row))) for row in PROFILES.values()]
    assert every.objects[2] == one.object
    for row in every.objects:
        assert set(row["facts"]) == set(FACTS) == set(FACT_WORDS)
        assert set(row["fields"]) == set(PROFILES[row["version"]].fields)
        cells = [*row["facts"].values(), *row["fields"].values(), *row["endpoints"], *row["error_families"]]
        assert all(cell["basis"] in {"measured", "read"} and cell["source"] for cell in cells)
    assert one.object["facts"]["media_part_bytes"]["value"] == 64 << 20
    assert one.object["fields"]["seed"]["use"] == "ignored"


def test_an_unknown_version_names_the_known(mosaic: Mosaic) -> None:
    """Exit 2, nothing on stdout."""
    for flags in ([], ["--json"]):
        ended = mosaic("release", "profile", "0.8.3", *flags)
        assert (ended.code, ended.out) == (2, "")
        assert all(version in ended.err for version in PROFILES)
