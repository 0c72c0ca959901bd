"""The golden cases, through the whole wire: staged files, request, HTTP, event stream, completion."""

from __future__ import annotations

import asyncio
import json

import pytest

from contracts.digest import Digest
from contracts.ordering import OrderingForm
from contracts.outcome import Outcome
from serving.calibration.world import draw
from serving.embedded_worker import EmbeddedWorker
from tests.engine_worker import ask, request_for
from tests.world import Golden, golden_cases, question_of

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]

_CASES = golden_cases()
_PAIRS = [case for case in _CASES if case.task == "order" and len(set(case.answer.split(" then "))) == 2]


@pytest.mark.parametrize("golden", _CASES, ids=lambda case: f"{case.task} {case.seed} is {case.answer}")
async def test_answer(worker: EmbeddedWorker, golden: Golden) -> None:
    """Each golden case's media have their known digests, and the engine answers it rightly and completely."""
    case = golden.draw()
    assert tuple(Digest.of(media.encode()) for media in case.media) == golden.media
    got = await ask(worker, question_of(case, worker.staging_root))
    assert (got.outcome, got.rule, got.text, got.finish_reason) == (Outcome.COMPLETE, None, golden.answer, "stop")
    assert (case.question, case.answer) == (golden.question, golden.answer)


@pytest.mark.parametrize("golden", _PAIRS, ids=lambda case: case.answer)
async def test_order_is_meaning(worker: EmbeddedWorker, golden: Golden) -> None:
    """The same two pictures in the other order swap the answer."""
    first, second = golden.answer.split(" then ")
    got = await ask(worker, question_of(golden.draw(), worker.staging_root, swapped=True))
    assert (got.outcome, got.text) == (Outcome.COMPLETE, f"{second} then {first}")


async def test_one_token(worker: EmbeddedWorker) -> None:
    """A budget of one token ends with `length_limited`, and its text and usage are kept."""
    case = _PAIRS[0].draw()
    got = await ask(worker, question_of(case, worker.staging_root, max_output_tokens=1))
    assert (got.outcome, got.finish_reason) == (Outcome.LENGTH_LIMITED, "length")
    assert got.text
    assert case.answer.startswith(got.text)
    assert got.usage is not None
    assert got.usage.completion_tokens == 1


async def test_json_schema(worker: EmbeddedWorker) -> None:
    """An answer form is held by the engine: what comes is JSON of that form, with finish `stop`."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green", "blue"]}, "sure": {"type": "boolean"}},
        "required": ["colour", "sure"],
        "additionalProperties": False,
    }
    question = question_of(_CASES[0].draw(), worker.staging_root, max_output_tokens=64, answer_schema=schema)
    got = await ask(worker, question)
    assert (got.outcome, got.finish_reason) == (Outcome.COMPLETE, "stop")
    assert got.text is not None
    answer = json.loads(got.text)
    assert set(answer) == {"colour", "sure"}
    assert answer["colour"] in {"red", "green", "blue"}
    assert isinstance(answer["sure"], bool)


async def test_mixed_order_of_kinds(worker: EmbeddedWorker) -> None:
    """Parts that one message would regroup go as one message each, and the engine takes that form."""
    question = question_of(_CASES[-1].draw(), worker.staging_root, swapped=True)
    assert request_for(worker, question).ordering_form is OrderingForm.MESSAGE_PER_PART
    got = await ask(worker, question)
    assert got.outcome in {Outcome.COMPLETE, Outcome.LENGTH_LIMITED}, got.reason


async def test_impossible_schema(worker: EmbeddedWorker) -> None:
    """An answer form that the engine cannot compile is its error, not a hang and not an answer."""
    question = question_of(_CASES[0].draw(), worker.staging_root, answer_schema={"type": "no such type"})
    got = await ask(worker, question)
    assert (got.outcome, got.text) == (Outcome.ENGINE_ERROR, None)


async def test_concurrent(worker: EmbeddedWorker) -> None:
    """Twice as many questions at once as the engine has slots are all answered, each its own."""
    cases = [draw("colour", 1_000_900_000 + index) for index in range(8)]
    got = await asyncio.gather(*(ask(worker, question_of(case, worker.staging_root)) for case in cases))
    assert [submission.text for submission in got] == [case.answer for case in cases]
    assert {submission.outcome for submission in got} == {Outcome.COMPLETE}


async def test_stream_is_kept(worker: EmbeddedWorker) -> None:
    """The raw stream is handed on whole with its digest, and the worker echoed the request's id."""
    got = await ask(worker, question_of(_CASES[0].draw(), worker.staging_root), request_id="an-id-of-ours")
    assert got.stream.endswith(b"data: [DONE]\n\n")
    assert got.stream_digest == Digest.of(got.stream)
    assert (got.status, got.http_request_id) == (200, "an-id-of-ours")
    assert str(worker.staging_root).encode() not in got.stream
