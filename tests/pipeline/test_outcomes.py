"""Every way for a question to end, over a real workshop and a scripted worker: one outcome and one valid receipt."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contracts.outcome import Outcome
from contracts.result import QuestionResult
from pipeline.notes import RunFacts
from pipeline.running import Run
from pipeline.workshop import open_workshop
from storage.home import Storage
from storage.process_mark import boot_clock_s
from storage.staging import Swept
from tests.command import left_behind
from tests.pipeline.desk import GATES, ask, load, opened, reading, receipts, served, settings_of, write_bundle
from tests.simulators.worker import DONE, End, Reply, ScriptedWorker, answer, chunk

IMAGE = {"image": "circle.png"}
FORM = {"json_schema": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}}
_STALLED = Reply((chunk("re"),), end=End.STALL)


def _reply(*pieces: bytes, **more: Any) -> Reply:
    return Reply(pieces, **more)


_WORKERS: dict[str, tuple[Reply, dict[str, Any], Outcome, str | None]] = {
    "a whole answer": (answer("red"), {}, Outcome.COMPLETE, None),
    "an answer in its form": (answer('{"colour":"red"}'), {"answer": FORM}, Outcome.COMPLETE, None),
    "an answer that breaks its form": (answer("red"), {"answer": FORM}, Outcome.ANSWER_INVALID, "answer-json"),
    "a budget that ran out": (
        _reply(chunk("re"), chunk("d", finish="length", tokens=2), DONE),
        {"max_output_tokens": 2},
        Outcome.LENGTH_LIMITED,
        "finish-length",
    ),
    "a stream cut in its middle": (_reply(chunk("re"), end=End.CUT), {}, Outcome.INCOMPLETE, "transport-cut"),
    "a stream without an end": (_reply(chunk("re")), {}, Outcome.INCOMPLETE, "eof-before-finish"),
    "an error by status": (_reply(b"{}", status=500), {}, Outcome.ENGINE_ERROR, "http-status"),
    "an end before a beginning": (_reply(DONE), {}, Outcome.PROTOCOL_VIOLATION, "done-before-answer"),
    "a busy worker": (_reply(b"", status=503), {}, Outcome.UNAVAILABLE, "worker-busy"),
}


def _one_receipt(home: Path, result: QuestionResult) -> None:
    (receipt,) = receipts(home)
    assert (receipt.outcome, receipt.rule, receipt.reason) == (result.outcome, result.rule, result.reason)
    assert (receipt.question_id, receipt.attempt.id) == (result.id, result.attempt)
    assert left_behind(home) == []


@pytest.mark.parametrize("case", _WORKERS)
async def test_what_a_worker_does(tmp_path: Path, case: str) -> None:
    """Whatever a worker sends is one outcome by its rule, with one receipt that verifies."""
    reply, more, outcome, rule = _WORKERS[case]
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, **more))
    async with ScriptedWorker(served(reply)) as worker:
        async with opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run:
            result = await run.answer(0)
            assert [each.to_json() for each in run.results()] == [result.to_json()]
        assert len(worker.received) == GATES + 1  # the gates and one question: nothing is submitted twice
    assert (result.outcome, result.rule) == (outcome, rule)
    assert (result.answer is not None) == (outcome is Outcome.COMPLETE)
    _one_receipt(tmp_path / "home", result)


async def test_worker_gone(tmp_path: Path) -> None:
    """A worker that left after the start answers nothing: unavailable, with the request not said to be sent."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE))
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            await worker.__aexit__()
            result = await run.answer(0)
    assert (result.outcome, result.rule, result.request_digest) == (Outcome.UNAVAILABLE, "worker-connect", None)
    _one_receipt(tmp_path / "home", result)


_SOURCES: dict[str, tuple[dict[str, str], bytes, Outcome, str]] = {
    "bytes of no kind": ({"image": "part.bin"}, b"not a picture", Outcome.REFUSED, "type-not-accepted"),
    "another digest": (
        {"image": "part.bin", "sha256": "0" * 64},
        b"whatever it is",
        Outcome.SOURCE_FAILED,
        "sha256-mismatch",
    ),
    "no such file": ({"image": "absent.png"}, b"", Outcome.SOURCE_FAILED, "file-missing"),
}


@pytest.mark.parametrize("case", _SOURCES)
async def test_what_a_source_is(tmp_path: Path, case: str) -> None:
    """A source that cannot be used ends its question before the worker hears of it, and the next is answered."""
    part, data, outcome, rule = _SOURCES[case]
    path = write_bundle(tmp_path / "in", ask("bad", part), ask("good", IMAGE))
    (tmp_path / "in" / "part.bin").write_bytes(data)
    async with ScriptedWorker(served(answer("red"))) as worker:
        async with opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run:
            counts = await run.answer_range(range(2))
            bad, good = run.results()
        assert len(worker.received) == GATES + 1
    assert (bad.outcome, bad.rule) == (outcome, rule)
    assert good.outcome is Outcome.COMPLETE
    assert counts == {outcome.value: 1, "complete": 1}
    assert len(receipts(tmp_path / "home")) == 2


async def test_other_release(tmp_path: Path) -> None:
    """A question for a release that this run does not serve is refused before a byte is read."""
    path = write_bundle(tmp_path / "in", ask("q", {"image": "absent.png"}, release="another-1"))
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            result = await run.answer(0)
    assert (result.outcome, result.rule) == (Outcome.REFUSED, "release")
    _one_receipt(tmp_path / "home", result)


async def test_canceled(tmp_path: Path) -> None:
    """A canceled question has its receipt before the cancellation is raised, and what was not tried says so."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE), ask("later", IMAGE))
    async with ScriptedWorker(served(_STALLED)) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            answering = asyncio.create_task(run.answer(0))
            await worker.has_been_asked(GATES + 1)
            answering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await answering
            (result,) = run.results()
            await worker.left.wait()
        _, later = reading(settings.home, lambda storage: list(storage.runs.results(run.id)))
    assert (result.outcome, result.rule) == (Outcome.CANCELED, "canceled")
    assert (later.outcome, later.rule, later.receipt) == (Outcome.CANCELED, "canceled", None)
    _one_receipt(tmp_path / "home", result)


async def test_lease_lost(tmp_path: Path) -> None:
    """When the lease is taken away while the worker answers, the request is closed and the outcome is lease_lost."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE), limits={"lease_ttl_s": 0.6})
    async with ScriptedWorker(served(_STALLED)) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            answering = asyncio.create_task(run.answer(0))
            await worker.has_been_asked(GATES + 1)
            reading(settings.home, _expire_all)
            result = await answering
            await worker.left.wait()
    assert (result.outcome, result.rule) == (Outcome.LEASE_LOST, "lease-lost")
    _one_receipt(tmp_path / "home", result)


async def test_lease_lost_before_the_record(tmp_path: Path) -> None:
    """When the lease was taken away and the holder has not noticed, a whole and right answer is recorded as
    lease_lost, and its receipt verifies."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE))
    async with ScriptedWorker(served(replace(answer("red"), held=True))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            answering = asyncio.create_task(run.answer(0))
            await worker.has_been_asked(GATES + 1)
            swept = reading(settings.home, _expire_all)
            worker.go.set()
            result = await answering
    assert swept.expired == 1
    assert (result.outcome, result.rule, result.answer) == (Outcome.LEASE_LOST, "lease-lost", None)
    _one_receipt(tmp_path / "home", result)


def _expire_all(storage: Storage) -> Swept:
    """A sweep of an hour later, by both clocks."""
    return storage.staging.sweep(time.time() + 3_600, boot_clock_s() + 3_600)


async def test_fault_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bug in one question's way is its outcome, with a trace in the log, and stops no other question."""
    path = write_bundle(tmp_path / "in", ask("bug", {"image": "http://localhost/x.png"}), ask("good", IMAGE))
    broken: Any = None  # no fetches at all: what only a fault in the wiring could do
    async with ScriptedWorker(served(answer("red"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        loaded = load(path, settings)
        async with open_workshop(settings, loaded.limits) as shop:
            facts = RunFacts("run-1", loaded.bundle.id, loaded.digest, replace(shop, fetches=broken))
            run = Run(loaded, facts, again=True)
            run.open(loaded)
            counts = await run.answer_range(range(2))
            bug, good = run.results()
            run.close()
    assert counts == {"unavailable": 1, "complete": 1}
    assert (bug.rule, good.outcome) == ("internal-fault", Outcome.COMPLETE)
    assert "Traceback" in caplog.text
    assert "Traceback" not in str(bug.to_json())
    assert len(receipts(tmp_path / "home")) == 2
