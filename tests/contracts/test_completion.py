"""The completion machine: one outcome for every stream, `complete` for nothing but a whole answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.completion import Completion, CompletionStream, Cut, check_stream
from contracts.completion_table import ENDED, TABLE, Signal, State, advance
from contracts.digest import Digest
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import PROFILES, profile
from tests.contracts.wire_chunks import DONE, GOOD, ROUTE, USAGE, chunk, event, last, partitions, verdict

WIRE = Path(__file__).parent.parent / "vectors" / "wire"
OUTCOMES: dict[str, str] = json.loads((WIRE / "OUTCOMES.json").read_bytes())
VIOLATION, INCOMPLETE, ENGINE = Outcome.PROTOCOL_VIOLATION, Outcome.INCOMPLETE, Outcome.ENGINE_ERROR
OPEN = chunk("a")
EMPTY = {"content": None}


def usage(**changes: int | None) -> bytes:
    return last(usage=USAGE | changes)


REFUSED = {
    "an empty body": (b"", INCOMPLETE, "empty-stream"),
    "only keep-alives": (b":\n\n:\n\n", INCOMPLETE, "eof-before-answer"),
    "an HTML page": (b"<!doctype html>\n<html><body>Bad gateway</body></html>", INCOMPLETE, "not-an-event-stream"),
    "a JSON body": (b'{"message":"no such model"}', INCOMPLETE, "not-an-event-stream"),
    "the end before a finish": (OPEN, INCOMPLETE, "eof-before-finish"),
    "the end before DONE": (OPEN + last(), INCOMPLETE, "eof-before-done"),
    "the end inside the first event": (OPEN[:40], INCOMPLETE, "eof-inside-event"),
    "the end inside a later event": (OPEN + last()[:-1], INCOMPLETE, "eof-inside-event"),
    "the end inside DONE": (OPEN + last() + b"data: [DONE]\n", INCOMPLETE, "eof-inside-event"),
    "an error text": (event("out of memory") + DONE, ENGINE, "error-text"),
    "an error text in the middle": (OPEN + event("out of memory") + DONE, ENGINE, "error-text"),
    "an error text after the finish": (OPEN + last() + event("out of memory") + DONE, ENGINE, "error-text"),
    "an error text that begins like JSON": (event("1 weight is negative"), ENGINE, "error-text"),
    "an empty text": (b"data\n\n", ENGINE, "error-text"),
    "bad JSON": (event('{"id":"1"'), ENGINE, "bad-json"),
    "bad JSON behind a wrong type": (event('{"id":1,"object'), ENGINE, "bad-json"),
    "a lone DONE": (DONE, VIOLATION, "done-before-answer"),
    "no finish": (OPEN + DONE, VIOLATION, "finish-missing"),
    "no usage": (OPEN + chunk(finish="stop") + DONE, VIOLATION, "usage-missing"),
    "usage before the finish": (chunk(usage=USAGE) + last() + DONE, VIOLATION, "usage-early"),
    "usage again after the finish": (last() + chunk(usage=USAGE) + DONE, VIOLATION, "usage-twice"),
    "two finishes": (last() + last() + DONE, VIOLATION, "finish-twice"),
    "a second finish without usage": (last() + chunk(finish="stop") + DONE, VIOLATION, "finish-twice"),
    "content after the finish": (last() + OPEN + DONE, VIOLATION, "content-after-finish"),
    "two DONE": (OPEN + last() + DONE + DONE, VIOLATION, "done-twice"),
    "a chunk after DONE": (GOOD + OPEN, VIOLATION, "data-after-done"),
    "a text after DONE": (GOOD + event("bye"), VIOLATION, "data-after-done"),
    "a field without an event after DONE": (GOOD + b"id: 4\n\n", VIOLATION, "data-after-done"),
    "half an event after DONE": (GOOD + b"data: x", VIOLATION, "data-after-done"),
    "another id": (OPEN + last(id="2") + DONE, VIOLATION, "id-changed"),
    "another created": (OPEN + last(created=1) + DONE, VIOLATION, "created-changed"),
    "another model": (OPEN + last(model="other") + DONE, VIOLATION, "model-changed"),
    "a model from the start that is not the route": (chunk(model="default"), VIOLATION, "model"),
    "an id of another form": (chunk(id="chatcmpl-1"), VIOLATION, "id-form"),
    "an id with a line feed": (chunk(id="1\n"), VIOLATION, "id-form"),
    "an id in other digits": (chunk(id="\u0661"), VIOLATION, "id-form"),
    "a date beyond any": (chunk(created=2**60), VIOLATION, "created"),
    "a negative date": (chunk(created=-1), VIOLATION, "created"),
    "a second choice": (chunk(choices=[{"index": i, "delta": EMPTY, "finish_reason": None} for i in (0, 1)]),
                        VIOLATION, "one-choice"),
    "no choice": (OPEN + chunk(choices=[], usage=USAGE), VIOLATION, "one-choice"),
    "a choice at index 1": (chunk(choice={"index": 1}), VIOLATION, "one-choice"),
    "a wrong object": (chunk(object="chat.completion"), VIOLATION, "object"),
    "an error object": (event('{"message":"no such model"}'), VIOLATION, "error-object"),
    "an OpenAI error object": (event('{"error":{"message":"no","code":5}}'), VIOLATION, "error-object"),
    "an error object without text": (event('{"error":5}'), VIOLATION, "error-object"),
    "an error beside choices": (OPEN + last(error={"message": "no"}) + DONE, VIOLATION, "error-object"),
    "an answer by an adapter": (chunk(adapter_generation="g1") + last() + DONE, VIOLATION, "adapter"),
    "an answer of a session": (OPEN + last(session_id="0b6f") + DONE, VIOLATION, "session"),
    "JSON that is no object": (event("[]"), VIOLATION, "chunk-shape"),
    "JSON that is a number": (event("7"), VIOLATION, "chunk-shape"),
    "a chunk with a part missing": (event('{"id":"1","choices":[]}'), VIOLATION, "chunk-shape"),
    "an id that is a number": (chunk(id=1), VIOLATION, "chunk-shape"),
    "a date that is a float": (chunk(created=1.0), VIOLATION, "chunk-shape"),
    "content that is a list": (chunk(delta={"content": ["a"]}), VIOLATION, "chunk-shape"),
    "tokens that are floats": (last(usage=USAGE | {"total_tokens": 8.0}), VIOLATION, "chunk-shape"),
    "a choice without finish reason": (chunk(choices=[{"index": 0, "delta": {}}]), VIOLATION, "chunk-shape"),
    "JSON nested too deeply": (event('{"x":' + "[" * 50_000 + "]" * 50_000 + "}"), VIOLATION, "json-depth"),
    "a delta without role": (chunk(role=None), VIOLATION, "role"),
    "another role": (OPEN + chunk(role="user"), VIOLATION, "role"),
    "a tool call": (chunk(delta={"tool_calls": [{"index": 0}]}), VIOLATION, "tool-call"),
    "a function call": (chunk(delta={"function_call": {"name": "f"}}), VIOLATION, "tool-call"),
    "finish tool_calls": (last(finish="tool_calls"), VIOLATION, "tool-call"),
    "finish content_filter": (last(finish="content_filter"), VIOLATION, "content-filter"),
    "finish canceled": (last(finish="canceled"), VIOLATION, "finish-reason"),
    "an empty finish": (last(finish=""), VIOLATION, "finish-reason"),
    "a named event": (OPEN + b"event: file_produced\n" + event("{}"), VIOLATION, "named-event"),
    "NUL in the text": (chunk("a\0b"), VIOLATION, "nul"),
    "NUL in the reasoning": (chunk(delta={"reasoning_content": "\0"}), VIOLATION, "nul"),
    "content by another name": (OPEN + chunk("no").replace(b"content", b"kontent") + last() + DONE, VIOLATION,
                                "chunk-shape"),
    "a damaged field name": (OPEN + chunk("no").replace(b"data:", b"dat:") + last() + DONE, VIOLATION, "foreign-field"),
    "a field in capitals": (OPEN + chunk("no").replace(b"data:", b"DATA:") + last() + DONE, VIOLATION, "foreign-field"),
    "a field behind a space": (OPEN + b" " + chunk("no") + last() + DONE, VIOLATION, "foreign-field"),
    "a byte order mark inside": (OPEN + b"\xef\xbb\xbf" + chunk("no") + last() + DONE, VIOLATION, "foreign-field"),
    "data under another field": (OPEN + chunk("no").replace(b"data:", b"id:") + last() + DONE, VIOLATION,
                                 "event-without-data"),
    "invalid UTF-8": (OPEN + b"data: \xff\n\n", VIOLATION, "utf-8"),
    "usage that does not add up": (usage(total_tokens=9) + DONE, VIOLATION, "usage-sum"),
    "negative usage": (usage(completion_tokens=-1, total_tokens=4) + DONE, VIOLATION, "usage-range"),
    "usage beyond any": (usage(prompt_tokens=2**60, total_tokens=2**60 + 3) + DONE, VIOLATION, "usage-range"),
    "a count of thousands of digits": (usage(total_tokens=10**4_000) + DONE, VIOLATION, "usage-range"),
    "text of no token": (OPEN + usage(completion_tokens=0, total_tokens=5) + DONE, VIOLATION, "usage-none"),
    "more tokens than asked for": (usage(completion_tokens=65, total_tokens=70) + DONE, VIOLATION, "usage-budget"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
@given(draw=st.data())
def test_each_vector_has_its_outcome_in_every_partition(name: str, draw: st.DataObject) -> None:
    """The vectors, fed whole, byte by byte and randomly cut, end alike in everything."""
    data = (WIRE / f"{name}.sse").read_bytes()
    cuts = [data[index : index + 1] for index in range(len(data))] if draw.draw(st.booleans()) else []
    whole, cut, bytewise = (_vector(parts) for parts in ([data], draw.draw(partitions(data)), cuts or [data]))
    assert whole.outcome.value == OUTCOMES[name]
    assert whole == cut == bytewise


def _vector(parts: list[bytes]) -> Completion:
    return check_stream(parts, profile=profile("0.8.17"), route=ROUTE, max_tokens=4096, limits=Limits())


def test_there_is_an_outcome_for_every_vector() -> None:
    """No vector lies about unchecked."""
    assert {file.stem for file in WIRE.glob("*.sse")} == set(OUTCOMES)


@pytest.mark.parametrize("version", PROFILES)
def test_a_whole_answer_is_complete(version: str) -> None:
    """Text, usage, identity and digest of a good stream, under every profile; comments are allowed anywhere."""
    data = b":\n\n" + GOOD + b":\n\n: bye"
    got = verdict(data, version=version)
    assert (got.outcome, got.rule, got.reason) == (Outcome.COMPLETE, None, None)
    assert (got.text, got.partial_text, got.reasoning, got.finish_reason) == ("Blue then red", None, None, "stop")
    assert got.usage is not None
    assert got.usage.to_json() == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    assert (got.response_id, got.model, got.created, got.events) == ("1", ROUTE, 1780322518, 4)
    assert (got.wire_bytes, got.stream_digest) == (len(data), Digest.of(data))


@pytest.mark.parametrize(("data", "outcome", "rule"), REFUSED.values(), ids=REFUSED)
def test_each_broken_stream_ends_by_its_own_rule(data: bytes, outcome: Outcome, rule: str) -> None:
    """Whole, byte by byte and with more after it: the outcome, the rule and the digest of all bytes."""
    whole = verdict(data)
    assert (whole.outcome, whole.rule) == (outcome, rule)
    assert whole.reason
    assert len(whole.reason) <= 400
    assert whole.text is None
    assert whole.stream_digest == Digest.of(data)
    if len(data) < 10_000:
        assert verdict(*(data[index : index + 1] for index in range(len(data)))) == whole


def test_every_way_to_fail_has_a_name_of_its_own_and_a_test() -> None:
    """No rule of the table is untested, save what a signal brings itself."""
    named = {step.rule for steps in TABLE.values() for step in steps.values() if step.rule}
    assert named <= {rule for _, _, rule in REFUSED.values()}


BOUNDS = {
    "events": ({}, chunk("") * 193),
    "answer-bytes": ({"answer_bytes": 5}, chunk("ää") + chunk("ä") + last() + DONE),
    "reasoning-bytes": ({"answer_bytes": 5}, chunk("", delta={"reasoning_content": "think"}) * 2),
    "wire-bytes": ({"stream_wire_bytes": 400}, GOOD),
    "line-bytes": ({"stream_line_bytes": 100}, GOOD),
    "event-bytes": ({"stream_event_bytes": 100}, GOOD),
    "comments": ({"stream_comments": 2}, b":\n\n" * 3 + GOOD),
}


@pytest.mark.parametrize("rule", BOUNDS)
def test_each_bound_ends_the_stream_by_its_own_name(rule: str) -> None:
    """Over a bound is a violation, and none hides another."""
    changes, data = BOUNDS[rule]
    got = verdict(data, limits=Limits().changed(changes))
    assert (got.outcome, got.rule) == (VIOLATION, rule)


def test_reasoning_and_answer_are_counted_apart() -> None:
    """Five bytes of each fit in a bound of five."""
    data = chunk("four", delta={"reasoning_content": "think"}) + last("5") + DONE
    got = verdict(data, limits=Limits().changed({"answer_bytes": 5}))
    assert (got.outcome, got.text, got.reasoning) == (Outcome.COMPLETE, "four5", "think")


def test_a_length_limited_answer_keeps_text_and_usage_and_is_no_answer() -> None:
    """Finish `length` is a typed outcome that is never `complete`."""
    got = verdict(chunk("Blue"), last(" th", finish="length"), DONE)
    assert (got.outcome, got.rule, got.text) == (Outcome.LENGTH_LIMITED, "finish-length", "Blue th")
    assert got.usage is not None
    assert not got.outcome.is_answer


def test_text_before_a_failure_is_no_text() -> None:
    """It is kept where nobody takes it for an answer."""
    got = verdict(chunk("Blue"), chunk(" then"))
    assert (got.text, got.partial_text) == (None, "Blue then")


def test_a_known_defect_is_named_by_the_profile_that_has_it() -> None:
    """A clean end without terminal fits the split-UTF-8 defect up to 0.9.0, and no defect after."""
    old, new = verdict(OPEN, version="0.8.2"), verdict(OPEN, version="0.9.2")
    assert (old.defect, old.rule) == ("split-utf8-eof", "eof-before-finish")
    assert old.reason is not None
    assert "split-utf8-eof" in old.reason
    assert (new.defect, new.rule) == (None, "eof-before-finish")
    assert verdict(b"").defect == "kv-pool-too-small"
    assert verdict(OPEN + b"data: {").defect is None


def test_an_engine_that_gives_one_token_for_a_budget_of_none_is_known() -> None:
    """The profile's off-by-one: 0.8.x yields one token for a budget of 0, 0.9.x refuses it."""
    data = usage(completion_tokens=1, total_tokens=6) + DONE
    assert verdict(data, version="0.8.2", max_tokens=0).outcome is Outcome.COMPLETE
    assert verdict(data, version="0.9.2", max_tokens=0).rule == "usage-budget"


def test_without_a_route_any_one_model_will_do_but_only_one() -> None:
    """`stream check` of a file whose route nobody knows still demands one model."""
    engine, limits = profile("0.8.17"), Limits()
    same = [chunk(model="m"), last(model="m"), DONE]
    got = check_stream(same, profile=engine, route=None, max_tokens=9, limits=limits)
    assert (got.outcome, got.model) == (Outcome.COMPLETE, "m")
    other = [chunk(model="m"), last(model="n"), DONE]
    assert check_stream(other, profile=engine, route=None, max_tokens=9, limits=limits).rule == "model-changed"
    long = [chunk(model="m" * 513)]
    assert check_stream(long, profile=engine, route=None, max_tokens=9, limits=limits).rule == "model"


def _stream() -> CompletionStream:
    return CompletionStream(profile("0.8.17"), route=ROUTE, max_tokens=64, limits=Limits())


@pytest.mark.parametrize("by", list(Cut))
def test_a_cut_stream_is_incomplete_even_after_done(by: Cut) -> None:
    """Only the end of the bytes closes a stream; deadlines and the transport have rules of their own."""
    for data in (b"", OPEN, GOOD):
        stream = _stream()
        stream.feed(data)
        got = stream.cut("no byte for 60 s", by)
        assert (got.outcome, got.rule, got.reason) == (INCOMPLETE, by.value, "no byte for 60 s")
        assert stream.finish() == got


def test_a_cut_does_not_change_a_failure() -> None:
    """Failed is terminal: what comes after it is hashed and has no other effect."""
    stream = _stream()
    stream.feed(OPEN + event("out of memory"))
    assert stream.has_failed
    stream.feed(last() + DONE)
    got = stream.cut("connection reset")
    assert (got.outcome, got.rule, got.partial_text) == (ENGINE, "error-text", "a")
    assert got.stream_digest == Digest.of(OPEN + event("out of memory") + last() + DONE)
    assert stream.finish() == got


def test_repr_shows_the_state_and_no_content() -> None:
    """A stream in a log or a traceback says where it is, not what it holds."""
    stream = _stream()
    assert repr(stream) == "<CompletionStream waiting, 0 events>"
    stream.feed(chunk("secret"))
    assert repr(stream) == "<CompletionStream streaming, 1 events>"
    stream.feed(DONE)
    assert repr(stream) == "<CompletionStream failed protocol_violation by finish-missing, 2 events>"


def test_engine_errors_are_shown_bounded_and_masked() -> None:
    """A reason holds no path, no URL and no payload."""
    told = "cannot open `/srv/mosaic-evidence/x.png` from https://user:pw@host/a?token=1: " + "A" * 90 + " z" * 500
    got = verdict(event(told))
    assert got.reason is not None
    assert got.reason.startswith("cannot open `<path>` from <url>")
    assert len(got.reason) == 200
    assert not any(secret in got.reason for secret in ("/srv", "token", "host", "AAAA"))


def test_the_table_is_total_and_failed_is_terminal() -> None:
    """Every signal has a step in every state; a step that fails has an outcome, another has none."""
    for state in State:
        for signal in Signal:
            step = advance(state, signal)
            if state in ENDED:
                assert step.state is state
            assert (step.outcome is not None) == (step.state is State.FAILED and state is not State.FAILED)
    closing = [(state, signal) for state in State for signal in Signal if advance(state, signal).state is State.CLOSED]
    assert [pair for pair in closing if pair[0] is not State.CLOSED] == [(State.DONE, Signal.EOF)]


def test_a_chunk_in_the_middle_changes_no_state() -> None:
    """The machine does not ask the table for it, because there are so many."""
    assert advance(State.STREAMING, Signal.CHUNK) == (State.STREAMING, None, None, None)


FRAGMENTS = [
    *(OPEN, last(), DONE, chunk(role="user"), chunk(id="2"), chunk(usage=USAGE), chunk(finish="stop")),
    *(event("oops"), event("{}"), event("[" * 3_000), event('"\\ud800"'), chunk(created=10**30), chunk("ä")[:70]),
    *(event('{"created":' + "9" * 5_000 + "}"), b":\n\n", b"event: x\n", b"data: "),
    *(b"\n", b"\r", b"\xff", b"\xef\xbb\xbf"),
]
HOSTILE = st.one_of(
    st.binary(max_size=300), st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=5), max_size=8).map(b"".join)
)


@given(data=HOSTILE, draw=st.data())
def test_any_bytes_end_with_one_outcome_in_every_partition(data: bytes, draw: st.DataObject) -> None:
    """The machine raises for nothing, and is complete only with exactly the one accepted sequence."""
    whole = verdict(data)
    assert verdict(*draw.draw(partitions(data))) == whole
    assert whole.stream_digest == Digest.of(data)
    assert (whole.rule is None) == (whole.outcome is Outcome.COMPLETE)
    if whole.outcome is Outcome.COMPLETE:
        assert data.count(b"[DONE]") == 1
        assert data.count(b'"finish_reason":"stop"') == 1
        assert whole.usage is not None


@given(st.integers(0, len(GOOD) - 1))
def test_no_prefix_of_a_good_stream_is_complete(length: int) -> None:
    """Cut anywhere, it is incomplete."""
    assert verdict(GOOD[:length]).outcome is INCOMPLETE
