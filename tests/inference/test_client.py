"""The client against a scripted worker: whatever comes back, one outcome with its rule, and no exception."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from contracts.digest import Digest
from contracts.errors import InputError, WorkerUnavailable
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import profile
from contracts.profile_errors import Again
from contracts.question import Question, TextPart
from contracts.request import ChatRequest, build_request
from inference.client import Submission, WorkerClient
from tests.simulators.worker import DONE, EVENT_STREAM, ROUTE, End, Reply, ScriptedWorker, answer, chunk

_PROFILE = profile("0.9.5")
_LIMITS = Limits()


def _request() -> ChatRequest:
    question = Question((TextPart("hello"),), max_output_tokens=8)
    return build_request(
        question, profile=_PROFILE, route=ROUTE, staged_url=lambda artifact: artifact.staged_name, limits=_LIMITS
    )


def _client(url: str, limits: Limits = _LIMITS) -> WorkerClient:
    return WorkerClient(url, profile=_PROFILE, route=ROUTE, limits=limits)


async def _submit(reply: Reply, limits: Limits = _LIMITS) -> Submission:
    async with ScriptedWorker([reply]) as worker, _client(worker.url, limits) as client:
        async with asyncio.timeout(20):
            return await client.submit(_request(), request_id="the-id")


async def test_whole_answer() -> None:
    """A whole answer is complete, its bytes are kept with their digest, and the request went out as it was built."""
    async with ScriptedWorker([answer("hi")]) as worker, _client(worker.url) as client:
        request = _request()
        got = await client.submit(request, request_id="the-id")
    assert (got.outcome, got.text, got.finish_reason, got.status) == (Outcome.COMPLETE, "hi", "stop", 200)
    assert got.http_request_id == "the-id"
    assert got.stream == b"".join(answer("hi").pieces)
    assert got.stream_digest == Digest.of(got.stream)
    (received,) = worker.received
    assert received.body == request.body
    assert received.head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert received.header("content-type") == "application/json"
    assert received.header("accept") == "text/event-stream"
    assert received.header("accept-encoding") == "identity"


async def test_byte_by_byte() -> None:
    """How the bytes are cut into pieces changes nothing."""
    whole = b"".join(answer("hi").pieces)
    got = await _submit(Reply(tuple(whole[index : index + 1] for index in range(len(whole)))))
    assert (got.outcome, got.text, got.stream) == (Outcome.COMPLETE, "hi", whole)


def _json(status: int, body: bytes) -> Reply:
    return Reply((body,), status=status, headers=(("content-type", "application/json"),))


def _with(*headers: tuple[str, str]) -> Reply:
    return replace(answer("hi"), headers=headers)


_TYPE, _ID = EVENT_STREAM
_FAULTS: dict[str, tuple[Reply, Outcome, str]] = {
    "500 with a message": (_json(500, b'{"message":"no such model"}'), Outcome.ENGINE_ERROR, "http-status"),
    "500 with a page": (Reply((b"<html>" * 9999,), 500, (_TYPE,)), Outcome.ENGINE_ERROR, "http-status"),
    "404 without a body": (Reply((), 404, ()), Outcome.ENGINE_ERROR, "http-status"),
    "a redirect": (Reply((), 302, (("location", "http://127.0.0.1:1/"),)), Outcome.ENGINE_ERROR, "http-status"),
    "an error nested without end": (
        _json(500, b'{"message":' + b"[" * 3_000),
        Outcome.ENGINE_ERROR,
        "http-status",
    ),
    "an error that stalls": (
        Reply((b"x",), 500, (), End.STALL),
        Outcome.ENGINE_ERROR,
        "http-status",
    ),
    "the wrong content type": (_with(("content-type", "text/html"), _ID), Outcome.PROTOCOL_VIOLATION, "content-type"),
    "two content types": (_with(_TYPE, _TYPE, _ID), Outcome.PROTOCOL_VIOLATION, "content-type"),
    "no content type": (_with(_ID), Outcome.PROTOCOL_VIOLATION, "content-type"),
    "a compressed body": (
        _with(_TYPE, _ID, ("content-encoding", "gzip")),
        Outcome.PROTOCOL_VIOLATION,
        "content-encoding",
    ),
    "no request id": (_with(_TYPE), Outcome.PROTOCOL_VIOLATION, "request-id-echo"),
    "another request id": (_with(_TYPE, ("x-request-id", "other")), Outcome.PROTOCOL_VIOLATION, "request-id-echo"),
    "the request id twice": (_with(_TYPE, _ID, _ID), Outcome.PROTOCOL_VIOLATION, "request-id-echo"),
    "too many headers": (
        _with(_TYPE, _ID, *((f"x-{index}", "y") for index in range(99))),
        Outcome.PROTOCOL_VIOLATION,
        "response-headers",
    ),
    "headers too large": (
        _with(_TYPE, _ID, ("x-large", "y" * 20_000)),
        Outcome.PROTOCOL_VIOLATION,
        "response-header-bytes",
    ),
    "giant headers": (
        _with(_TYPE, _ID, ("x-giant", "y" * 999_999)),
        Outcome.PROTOCOL_VIOLATION,
        "response-header-bytes",
    ),
    "a page with status 200": (
        Reply((b"<!doctype html><html></html>",), headers=(("content-type", "text/html; charset=utf-8"), _ID)),
        Outcome.PROTOCOL_VIOLATION,
        "content-type",
    ),
    "a page that says it is a stream": (Reply((b"<html>\n",)), Outcome.INCOMPLETE, "not-an-event-stream"),
    "an empty stream": (Reply(()), Outcome.INCOMPLETE, "empty-stream"),
    "a clean end before DONE": (Reply(answer("hi").pieces[:-1]), Outcome.INCOMPLETE, "eof-before-done"),
    "a clean end before a finish": (Reply((chunk("h"),)), Outcome.INCOMPLETE, "eof-before-finish"),
    "a stream cut in the middle": (Reply((chunk("h"),), end=End.CUT), Outcome.INCOMPLETE, "transport-cut"),
    "a stream cut at once": (Reply((), end=End.CUT), Outcome.INCOMPLETE, "transport-cut"),
    "an error in the stream": (Reply((chunk("h"), b"data: out of luck\n\n", DONE)), Outcome.ENGINE_ERROR, "error-text"),
    "something else than a chunk": (Reply((b'data: {"a":1}\n\n',)), Outcome.PROTOCOL_VIOLATION, "chunk-shape"),
    "another model": (
        Reply((chunk("h").replace(ROUTE.encode(), b"other"),)),
        Outcome.PROTOCOL_VIOLATION,
        "model",
    ),
}


@pytest.mark.parametrize(("reply", "outcome", "rule"), _FAULTS.values(), ids=_FAULTS.keys())
async def test_fault(reply: Reply, outcome: Outcome, rule: str) -> None:
    """Each fault has its outcome and rule, no text that could be taken for an answer, and a bounded reason."""
    got = await _submit(reply, replace(_LIMITS, idle_gap_s=0.5))
    assert (got.outcome, got.rule, got.text) == (outcome, rule, None)
    assert got.reason
    assert len(got.reason) < 400
    assert got.stream_digest == Digest.of(got.stream)


async def test_message_is_told() -> None:
    """What an engine's error says is told, without the paths in it."""
    got = await _submit(_json(500, b'{"message":"cannot open /srv/models/secret.bin today"}'))
    assert got.reason == "status 500 (client-or-engine): cannot open <path> today"


_SAID: dict[str, tuple[Reply, str, Again]] = {
    "a mistake of ours by status 500": (
        _json(500, b'{"message":"Image sub-content `image_url` key must be an object."}'), "part-malformed", Again.NO
    ),
    "a prompt that is too long, by status 422": (
        _json(422, b'{"message":"Prompt sequence length is greater than 4096"}'), "prompt-too-long", Again.NO
    ),
    "the same in the stream": (
        Reply((b"data: Prompt sequence length is greater than 4096\n\n", DONE)), "prompt-too-long", Again.NO
    ),
    "a file that is gone": (_json(500, b'{"message":"No such file or directory (os error 2)"}'), "media-missing",
                            Again.SAME),
    "a dead engine by status": (_json(500, b'{"message":"SenderPoisoned"}'), "engine-dead", Again.SAME),
    "a dead engine in the stream": (Reply((chunk("h"), b"data: EnginePoisoned\n\n", DONE)), "engine-dead", Again.SAME),
    "a hop before the engine": (Reply((b"<html>",), 502, (_TYPE,)), "hop-failed", Again.SAME),
    "any words by status 500": (_json(500, b'{"message":"out of luck"}'), "client-or-engine", Again.NO),
    "any words in the stream": (Reply((b"data: out of luck\n\n", DONE)), "stream-text", Again.NO),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "family", "again"), _SAID.values(), ids=_SAID.keys())
async def test_whether_another_try_can_help_is_told_by_the_message(reply: Reply, family: str, again: Again) -> None:
    """An error's family is the profile's; a status alone says little, 500 the least."""
    got = await _submit(reply)
    assert got.error is not None
    assert (got.outcome, got.error.name, got.error.again) == (Outcome.ENGINE_ERROR, family, again)


async def test_only_an_engines_error_has_a_family() -> None:
    """An answer and a broken rule have none."""
    for reply in (answer("hi"), Reply((b'data: {"a":1}\n\n',)), Reply(())):
        assert (await _submit(reply)).error is None


async def test_violation_stops_reading() -> None:
    """After a violation the connection is closed; the worker does not get to send more."""
    reply = Reply((b'data: {"a":1}\n\n',), end=End.STALL)
    async with ScriptedWorker([reply]) as worker, _client(worker.url) as client, asyncio.timeout(20):
        got = await client.submit(_request(), request_id="the-id")
        await worker.left.wait()
    assert got.outcome is Outcome.PROTOCOL_VIOLATION


_STALLED = Reply((chunk("h"),), end=End.STALL)
_SILENT = Reply((b":\n\n",), end=End.STALL)


@pytest.mark.parametrize(
    ("reply", "limits", "rule"),
    [
        (_STALLED, {"idle_gap_s": 0.2}, "idle-deadline"),
        (_STALLED, {"total_s": 0.2}, "total-deadline"),
        (_SILENT, {"first_event_s": 0.2}, "first-event-deadline"),
    ],
    ids=["nothing between two pieces", "not whole in time", "comments only"],
)
async def test_deadline(reply: Reply, limits: dict[str, float], rule: str) -> None:
    """Each deadline ends a stalled stream as incomplete, by its own name."""
    got = await _submit(reply, _LIMITS.changed(limits))
    assert (got.outcome, got.rule, got.text) == (Outcome.INCOMPLETE, rule, None)


async def test_cancellation_closes() -> None:
    """Canceling a submission closes its connection, which is what cancels in an engine."""
    async with ScriptedWorker([_STALLED]) as worker, _client(worker.url) as client, asyncio.timeout(20):
        task = asyncio.create_task(client.submit(_request(), request_id="the-id"))
        await worker.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await worker.left.wait()


async def test_client_after_fault() -> None:
    """A client whose request failed can ask again."""
    async with (
        ScriptedWorker([Reply((chunk("h"),), end=End.CUT), answer("hi")]) as worker,
        _client(worker.url) as client,
    ):
        first = await client.submit(_request(), request_id="one")
        second = await client.submit(_request(), request_id="two")
    assert (first.outcome, second.outcome, second.text) == (Outcome.INCOMPLETE, Outcome.COMPLETE, "hi")


@pytest.mark.parametrize("status", [429, 503])
async def test_not_admitted(status: int) -> None:
    """A worker that does not admit the request is unavailable: nothing was computed, and a retry can help."""
    with pytest.raises(WorkerUnavailable, match="worker-busy") as caught:
        await _submit(Reply((), status, ()))
    assert caught.value.retryable


async def test_nobody_listens() -> None:
    """A worker that cannot be connected to is unavailable."""
    async with ScriptedWorker([answer("hi")]) as worker:
        url = worker.url
    async with _client(url) as client:
        with pytest.raises(WorkerUnavailable, match="worker-connect"):
            await client.submit(_request(), request_id="the-id")


@pytest.mark.parametrize("request_id", ["", "a b", "a\r\nb", "x" * 129, "é"])
async def test_request_id(request_id: str) -> None:
    """A request id that could not be one header value is refused before anything is sent."""
    async with _client("http://127.0.0.1:1") as client:
        with pytest.raises(InputError, match="request-id"):
            await client.submit(_request(), request_id=request_id)
