"""Endpoints: since when, and what we do about each."""

from __future__ import annotations

from contracts.profile import PROFILES, profile
from contracts.profile_endpoints import ENDPOINTS, EndpointUse

NAMED = {
    *("chat completions", "models", "health", "metrics", "responses", "completions", "embeddings", "images", "speech"),
    *(
        "files",
        "skills",
        "LoRA",
        "messages",
        "sessions",
        "approvals",
        "unload, reload",
        "tune",
        "re_isq",
        "system",
        "docs",
    ),
}


def test_every_endpoint_says_what_we_do_and_how_it_is_known() -> None:
    """None twice, none without a reason."""
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(set(names)) == len(names)
    assert set(names) >= NAMED
    assert all(each.why.strip() and each.source.strip() and each.effect.strip() for each in ENDPOINTS)


def test_only_three_are_used() -> None:
    """And every version has these, the engine in the box only these."""
    used = {each.name for each in ENDPOINTS if each.use is EndpointUse.USED}
    assert used == {"chat completions", "models", "health"}
    for row in PROFILES.values():
        assert used <= {each.name for each in row.endpoints}
    assert {each.name for each in profile("0.9.5").endpoints} == used


def test_endpoints_come_with_versions() -> None:
    """0.8.2 has no metrics, messages, uploads or skills; LoRA routes come with 0.9.1."""
    rows = [{each.name for each in profile(version).endpoints} for version in ("0.8.2", "0.8.17", "0.9.2")]
    assert rows[1] - rows[0] == {"metrics", "messages", "file upload", "skills"}
    assert rows[2] - rows[1] == {"LoRA"}
    assert rows[0] < rows[1] < rows[2]
