"""Every named limit has a rule of its own that refuses by name, and a test that trips it.

A limit that is added without both fails here. What the stream machine buffers has no limit of its own because nothing
is queued between decoder and machine: unfinished bytes are bounded by line and event, whole ones by wire and answer.
"""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from contracts.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("contracts", "intake", "pipeline", "inference", "serving", "storage")


class Bound(NamedTuple):
    """The rule that a limit refuses by, the file that has it, and the test that trips it (`file::function`)."""

    rule: str
    source: str
    test: str


_DECODE, _FETCH = "intake/test_decoders_bounds.py::", "intake/test_fetcher.py::test_hostile_answer_ends_by_its_rule"
_STEP_8 = "intake/test_fetcher_bounds.py::test_step_8_hostile_bytes_end_by_their_rule"
_CONNECTION = "intake/children/fetch_connection.py"
_BOMB = f"{_DECODE}test_a_bomb_is_refused_by_the_bound_it_breaks"
_REQUEST = "contracts/test_request.py::test_each_bound_refuses_by_its_own_name"
_SSE = "contracts/test_sse.py::test_each_bound_has_its_own_name_and_spares_the_events_before_it"
_DEADLINE = "inference/test_client.py::test_deadline"
_FAULT = "inference/test_client.py::test_fault"
_KIND, _BUNDLE = "contracts/request_bounds.py", "contracts/bundle_rules.py"
_BUDGET = "pipeline/media_budget.py"
_DECODED = "pipeline/test_acquiring.py::test_decoded_work_is_bounded_over_all_parts"
_SCHEMA_PARSER = "contracts/test_bundle_refusals.py::test_the_parser_refuses_what_no_schema_can"

BOUNDS = {
    "bundle_bytes": Bound(
        "bundle-size", "contracts/bundle.py", "contracts/test_bundle_refusals.py::test_size_and_count_are_bounded"
    ),
    "bundle_questions": Bound(
        "bundle-questions", "contracts/bundle.py", "contracts/test_bundle_refusals.py::test_size_and_count_are_bounded"
    ),
    "question_parts": Bound("question-parts", _KIND, _REQUEST),
    "question_images": Bound("question-images", _KIND, _REQUEST),
    "question_audios": Bound("question-audios", _KIND, _REQUEST),
    "question_videos": Bound("question-videos", _KIND, _REQUEST),
    "prompt_bytes": Bound("prompt-bytes", _KIND, _REQUEST),
    "labels": Bound("bundle-labels", _BUNDLE, _SCHEMA_PARSER),
    "label_bytes": Bound("bundle-labels", _BUNDLE, _SCHEMA_PARSER),
    "schema_bytes": Bound(
        "schema-bytes",
        "contracts/answer_form.py",
        "contracts/test_answer_form.py::test_a_form_that_cannot_be_checked_is_refused_by_name",
    ),
    "request_bytes": Bound("request-bytes", "contracts/request.py", _REQUEST),
    "request_data_bytes": Bound(
        "request-bytes",
        "contracts/transport.py",
        "contracts/test_transport.py::test_each_transport_has_its_own_bound_of_the_body",
    ),
    "output_tokens": Bound("output-tokens", _KIND, _REQUEST),
    "image_bytes": Bound("encoded-bytes", "intake/sealed.py", _BOMB),
    "audio_bytes": Bound("encoded-bytes", "intake/sealed.py", _BOMB),
    "video_bytes": Bound("encoded-bytes", "intake/sealed.py", _BOMB),
    "question_bytes": Bound("question-bytes", "pipeline/media_budget.py", "pipeline/test_acquiring.py::test_budget"),
    "question_pixels": Bound("question-pixels", _BUDGET, _DECODED),
    "question_samples": Bound("question-samples", _BUDGET, _DECODED),
    "bundle_pixels": Bound("bundle-pixels", _BUDGET, _DECODED),
    "bundle_samples": Bound("bundle-samples", _BUDGET, _DECODED),
    "frame_pixels": Bound("frame-pixels", "intake/children/image.py", _BOMB),
    "frame_side_px": Bound("frame-side", "intake/children/image.py", _BOMB),
    "animation_pixels": Bound("animation-pixels", "intake/children/image.py", _BOMB),
    "audio_duration_s": Bound("audio-duration", "intake/children/audio.py", _BOMB),
    "audio_channels": Bound("audio-channels", "intake/children/audio_ffmpeg.py", _BOMB),
    "audio_rate_min_hz": Bound("audio-rate", "intake/children/audio_ffmpeg.py", _BOMB),
    "audio_rate_max_hz": Bound("audio-rate", "intake/children/audio_ffmpeg.py", _BOMB),
    "video_duration_s": Bound("video-duration", "intake/children/video.py", _BOMB),
    "video_frames": Bound("video-frames", "intake/children/video.py", _BOMB),
    "video_frame_pixels": Bound("frame-pixels", "intake/children/video.py", _BOMB),
    "media_streams": Bound("video-streams", "intake/children/ffmpeg.py", _BOMB),
    "trailing_bytes": Bound("trailing-data", "intake/children/lengths.py", _BOMB),
    "decode_wall_s": Bound(
        "decode-wall-time", "intake/decoder_worker.py", f"{_DECODE}test_a_slow_file_ends_at_the_wall_limit"
    ),
    "decode_cpu_s": Bound(
        "decode-cpu-time", "intake/decoder_worker.py", f"{_DECODE}test_a_busy_file_ends_at_the_cpu_limit"
    ),
    "decode_memory_bytes": Bound(
        "decode-memory", "intake/children/decode.py", f"{_DECODE}test_a_file_that_needs_too_much_memory_is_refused"
    ),
    "fetch_connect_s": Bound(
        "connect-timeout",
        "intake/children/fetch_network.py",
        "intake/test_fetcher_connect.py::test_a_connection_that_is_not_made_ends_at_its_limit",
    ),
    "fetch_tls_s": Bound(
        "tls-timeout",
        "intake/children/fetch_network.py",
        "intake/test_fetcher_bounds.py::test_step_5_a_handshake_is_bounded",
    ),
    "fetch_head_s": Bound("head-deadline", _CONNECTION, _STEP_8),
    "fetch_idle_s": Bound("idle-timeout", "intake/children/fetch_wire.py", _STEP_8),
    "fetch_total_s": Bound(
        "total-deadline",
        "intake/children/fetch_exchange.py",
        "intake/test_fetcher_bounds.py::test_step_8_one_deadline_over_all_hops",
    ),
    "fetch_rate_min_bytes_s": Bound("minimum-rate", "intake/children/fetch_exchange.py", _FETCH),
    "fetch_rate_grace_s": Bound("minimum-rate", "intake/children/fetch_exchange.py", _FETCH),
    "fetch_redirects": Bound("redirect-limit", "intake/children/fetch_exchange.py", _FETCH),
    "fetch_header_bytes": Bound("header-bytes", _CONNECTION, _STEP_8),
    "fetch_headers": Bound("header-count", _CONNECTION, _STEP_8),
    "fetch_interim": Bound("interim-count", _CONNECTION, _STEP_8),
    "fetch_framing_bytes": Bound("framing-bytes", "intake/children/fetch_body.py", _STEP_8),
    "dns_answers": Bound(
        "dns-answers-over-limit",
        "contracts/network_policy.py",
        "contracts/test_network_policy.py::test_answers_are_denied_by_their_rule",
    ),
    "response_headers": Bound("response-headers", "inference/response_rules.py", _FAULT),
    "response_header_bytes": Bound("response-header-bytes", "inference/response_rules.py", _FAULT),
    "stream_line_bytes": Bound("line-bytes", "contracts/sse.py", _SSE),
    "stream_event_bytes": Bound("event-bytes", "contracts/sse.py", _SSE),
    "stream_wire_bytes": Bound("wire-bytes", "contracts/sse.py", _SSE),
    "stream_comments": Bound("comments", "contracts/sse.py", _SSE),
    "answer_bytes": Bound(
        "answer-bytes",
        "contracts/completion.py",
        "contracts/test_completion.py::test_each_bound_ends_the_stream_by_its_own_name",
    ),
    "first_event_s": Bound("first-event-deadline", "contracts/completion.py", _DEADLINE),
    "idle_gap_s": Bound("idle-deadline", "contracts/completion.py", _DEADLINE),
    "total_s": Bound("total-deadline", "contracts/completion.py", _DEADLINE),
    "question_attempts": Bound("bundle-attempts", _BUNDLE, "contracts/test_bundle_refusals.py::test_tries_are_bounded"),
}

PACES = {
    "lease_ttl_s": ("pipeline/answering.py", "pipeline/test_outcomes.py::test_lease_lost"),
    "retry_delay_s": ("pipeline/answering.py", "contracts/test_retry.py::test_a_pause_is_bounded_and_spread"),
    "fetch_retry_after_s": ("intake/fetch_queue.py", "intake/test_fetch_queue.py::test_the_pause_before_another_try"),
    "fetch_tries_s": ("intake/fetch_queue.py", "intake/test_fetch_queue.py::test_tries_end_when_their_time_is_spent"),
}
"""Limits that refuse nothing: they say how long something is waited for or kept."""


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def _tests_in(path: str) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(_text(path)).body if isinstance(node, functions)}


def test_no_limit_is_without_a_rule_and_a_test() -> None:
    """The table of limits and the tables here have the same names."""
    names = [field.name for field in fields(Limits)]
    assert sorted(BOUNDS.keys() | PACES.keys()) == sorted(names)
    assert not BOUNDS.keys() & PACES.keys()


@pytest.mark.parametrize("name", BOUNDS)
def test_a_limit_refuses_by_its_rule_where_the_table_says(name: str) -> None:
    """The file has the rule's name; the limit is read by one of the packages, and not by the table alone."""
    bound = BOUNDS[name]
    assert f'"{bound.rule}"' in _text(bound.source) or bound.rule in _derived_rules(bound.source)
    assert any(_reads(name, path) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _derived_rules(source: str) -> set[str]:
    """The rules that a source makes from the names of modalities."""
    return {f"question-{kind}s" for kind in ("image", "audio", "video")} if source == _KIND else set()


def _reads(name: str, path: Path) -> bool:
    if path.name == "limits.py":
        return False
    kind = re.fullmatch(r"(?:question_)?(image|audio|video)(s|_bytes)", name)
    made = ("{modality.value}_bytes", "question_{modality.value}s") if kind else ()
    text = _text(str(path.relative_to(ROOT)))
    return re.search(rf"\b{name}\b", text) is not None or any(form in text for form in made)


@pytest.mark.parametrize("name", [*BOUNDS, *PACES])
def test_a_limit_is_tripped_by_a_test_that_exists(name: str) -> None:
    """The test is there, and its file names the rule that it expects."""
    path, _, function = (BOUNDS[name].test if name in BOUNDS else PACES[name][1]).partition("::")
    assert function in _tests_in(f"tests/{path}")
    if name in BOUNDS:
        assert BOUNDS[name].rule in _text(f"tests/{path}")


def test_few_limits_share_a_name() -> None:
    """A rule's name says which limit it was. Those that share one are told apart by the outcome (a source or a stream)
    or by the reason, which has the number and what was counted."""
    shared = [rule for rule in {bound.rule for bound in BOUNDS.values()} if _count(rule) > 1]
    assert sorted(shared) == [
        "audio-rate",
        "bundle-labels",
        "encoded-bytes",
        "frame-pixels",
        "minimum-rate",
        "request-bytes",
        "total-deadline",
    ]


def _count(rule: str) -> int:
    return sum(bound.rule == rule for bound in BOUNDS.values())
