"""The table of limits: set by who runs it, only narrowed by bundles."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InputError
from contracts.limits import Limits

NAMES = [field.name for field in fields(Limits)]
MINIMA = {"audio_rate_min_hz", "fetch_rate_min_bytes_s"}
UNITS = ("_bytes", "_px", "_pixels", "_s", "_hz", "_bytes_s")
COUNTS = {
    *("bundle_questions", "question_parts", "labels", "output_tokens", "audio_channels", "video_frames"),
    *("question_images", "question_audios", "question_videos", "question_attempts", "question_samples"),
    "bundle_samples",
    *(
        "media_streams",
        "fetch_redirects",
        "fetch_headers",
        "fetch_interim",
        "dns_answers",
        "response_headers",
        "stream_comments",
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_has_its_unit_in_its_name_or_is_a_count(name: str) -> None:
    """And is more than nothing."""
    assert name.endswith(UNITS) or name in COUNTS
    assert getattr(Limits(), name) > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_may_narrow_and_never_widen(name: str) -> None:
    """A minimum is narrowed upwards, a maximum downwards; the same value is no change."""
    current = getattr(Limits(), name)
    narrower, wider = (current + 1, current - 1) if name in MINIMA else (current - 1, current + 1)
    assert getattr(Limits().narrowed({name: narrower}), name) == narrower
    assert Limits().narrowed({name: current}) == Limits()
    with pytest.raises(InputError, match="limits-only-narrow"):
        Limits().narrowed({name: wider})


@pytest.mark.parametrize("change", ["changed", "narrowed"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", -1), ("labels", 1.5), ("labels", True), ("labels", 2**53), ("labels", 10**400),
        *((name, value) for name in ("labels", "total_s", "audio_rate_min_hz")
          for value in (float("nan"), float("inf"), float("-inf"), -0.5)),
    ],
)  # fmt: skip
def test_what_is_no_bound_is_refused(change: str, name: str, value: float) -> None:
    """NaN above all: it is neither wider nor narrower than anything."""
    with pytest.raises(InputError, match="limits-value"):
        getattr(Limits(), change)({name: value})


def test_a_deployment_may_set_any() -> None:
    """Wider too, and the type stays what it was."""
    wide = Limits().changed({"image_bytes": 10**9, "total_s": 5})
    assert (wide.image_bytes, wide.total_s) == (10**9, 5.0)
    assert isinstance(wide.total_s, float)
    assert isinstance(Limits().changed({"labels": 5.0}).labels, int)


def test_an_unknown_limit_is_named() -> None:
    """For bundles and deployments alike."""
    for change in (Limits().changed, Limits().narrowed):
        with pytest.raises(InputError, match=r"limits-unknown: limits\.image_byte "):
            change({"image_byte": 1})


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_is_in_the_digest(name: str) -> None:
    """The digest in a receipt names exactly the limits that were in force."""
    assert Limits().changed({name: asdict(Limits())[name] + 1}).digest() != Limits().digest()
    assert Limits().changed({}).digest() == Limits().digest()


@given(st.integers(1, 4_096))
def test_a_stream_may_have_two_events_a_token_and_some(max_tokens: int) -> None:
    """More tokens, more events, and always room for [DONE]."""
    assert Limits().stream_events(max_tokens) == 2 * max_tokens + 64
