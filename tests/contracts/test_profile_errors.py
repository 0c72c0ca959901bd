"""Error families: what a status and a message mean, and whether another try can help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.outcome import Outcome
from contracts.profile import PROFILES, profile
from contracts.profile_errors import Again, ErrorFamily

EVERY = tuple(PROFILES)
TOO_LONG = "Prompt sequence length is greater than 4096, perhaps consider using `truncate_sequence`?"
FILE_URL = "Server request image sources do not support file URLs."
LONE = "Expected `text` key in input message."

CASES = [
    # status, message, versions, family, another try
    (422, TOO_LONG, EVERY, "prompt-too-long", Again.NO),
    (200, TOO_LONG, EVERY, "prompt-too-long", Again.NO),
    (422, "Received an empty prompt.", EVERY, "prompt-empty", Again.NO),
    (500, "Expected array content sub-content to be of format", EVERY, "part-unknown", Again.NO),
    (500, "Image sub-content `image_url` key must be an object.", EVERY, "part-malformed", Again.NO),
    (500, LONE, EVERY, "part-alone", Again.NO),
    (500, f"engine-refused: {LONE}", ("0.9.5",), "part-alone", Again.NO),
    (500, FILE_URL, ("0.9.2",), "file-refused", Again.NO),
    (500, FILE_URL, ("0.8.2", "0.8.17"), "client-or-engine", Again.NO),
    (500, "No such file or directory (os error 2)", EVERY, "media-missing", Again.SAME),
    (500, "FFmpeg not found", EVERY, "ffmpeg-missing", Again.NO),
    (500, 'ModelNotFound("other")', EVERY, "model-unknown", Again.NO),
    (422, 'ModelNotFound("other")', EVERY, "model-unknown", Again.NO),
    (500, 'ModelReloading("m")', EVERY, "model-reloading", Again.SAME),
    (500, "SenderPoisoned", EVERY, "engine-dead", Again.SAME),
    (200, "shape mismatch in sub, lhs: [1], rhs: [2]", EVERY, "tensor", Again.NO),
    (200, "any words of the engine's", EVERY, "stream-text", Again.NO),
    (500, "any words of the engine's", EVERY, "client-or-engine", Again.NO),
    (500, "", EVERY, "client-or-engine", Again.NO),
    (400, "Failed to parse the request body as JSON", EVERY, "body-syntax", Again.NO),
    (404, "", EVERY, "endpoint-missing", Again.NO),
    (413, "length limit exceeded", EVERY, "body-too-large", Again.NO),
    (415, "Expected request with `Content-Type: application/json`", EVERY, "content-type", Again.NO),
    (422, "Failed to deserialize the JSON body into the target type", EVERY, "request-refused", Again.NO),
    (429, "slow down", EVERY, "not-admitted", Again.SAME),
    (503, "", EVERY, "not-admitted", Again.SAME),
    (502, "<html>", EVERY, "hop-failed", Again.SAME),
    (504, "", EVERY, "hop-failed", Again.SAME),
    (418, "", EVERY, "unknown", Again.NO),
    (422, "body-field: Object contains unknown field `tools`", ("0.9.5",), "body-refused", Again.NO),
    (413, "body-size: the body is over 1048576 bytes", ("0.9.5",), "body-refused", Again.NO),
    (422, "model-unknown: this worker serves m", ("0.9.5",), "model-unknown", Again.NO),
    (422, "staged-missing: sha256:00 is not staged: not a regular file", ("0.9.5",), "media-missing", Again.SAME),
]


@pytest.mark.parametrize(("status", "message", "versions", "name", "again"), CASES)
def test_what_an_error_means(status: int, message: str, versions: tuple[str, ...], name: str, again: Again) -> None:
    """The message decides where its beginning is known, whatever the status; else the status does."""
    for version in versions:
        family = profile(version).error_family(status, message)
        assert (family.name, family.again) == (name, again)


@pytest.mark.parametrize("version", PROFILES)
def test_every_family_says_how_it_is_known_and_is_met_by_a_case(version: str) -> None:
    """No family that no test asks for, and none shadowed by one before it."""
    families = profile(version).error_families
    assert all(family.source.strip() and family.meaning.strip() for family in families)
    met = {profile(version).error_family(case[0], case[1]) for case in CASES if version in case[2]}
    assert met == set(families)


def test_only_what_was_not_admitted_is_unavailable() -> None:
    """As the client has it: every other status is the engine's error, though most are the request's fault."""
    for row in PROFILES.values():
        unavailable = {family.name for family in row.error_families if family.outcome is Outcome.UNAVAILABLE}
        assert unavailable == {"not-admitted"}
        others = {family.outcome for family in row.error_families if family.name not in unavailable}
        assert others == {Outcome.ENGINE_ERROR}


@given(st.sampled_from(EVERY), st.integers(), st.text(max_size=200))
def test_any_error_has_a_family_and_an_unknown_one_is_not_tried_again(version: str, status: int, message: str) -> None:
    """A text that is no beginning of the table is judged by its status alone."""
    row = profile(version)
    family = row.error_family(status, message)
    assert isinstance(family, ErrorFamily)
    if not family.begins:
        assert family == row.error_family(status, "")
        assert family.again is Again.NO or status in (429, 502, 503, 504)
