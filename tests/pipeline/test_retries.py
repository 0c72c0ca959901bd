"""Tries of a question: each an attempt with its own request id and receipt; the last one's end is the question's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contracts.outcome import Outcome
from contracts.receipt import Receipt
from contracts.receipt_checks import Finding
from pipeline.running import Run
from storage.home import Storage
from storage.verify_rows import row_findings
from tests.command import left_behind
from tests.pipeline.desk import GATES, ask, opened, reading, receipts, served, settings_of, write_bundle
from tests.simulators.worker import DONE, End, Reply, ScriptedWorker, answer, chunk

IMAGE = {"image": "circle.png"}
CUT = Reply((chunk("re"),), end=End.CUT)
BUSY = Reply((b"",), status=503)
SHORT = Reply((chunk("re"), chunk("d", finish="length", tokens=2), DONE))
AT_ONCE = {"limits": {"retry_delay_s": 0}}


def _attempts(home: Path) -> list[tuple[int, Outcome]]:
    return [(each.attempt.number, each.outcome) for each in receipts(home)]


def _budgets(worker: ScriptedWorker) -> list[int]:
    return [json.loads(received.body)["max_tokens"] for received in worker.received[GATES:]]


async def test_a_cut_stream_is_asked_again(tmp_path: Path) -> None:
    """The first stream was cut, the second whole: complete, with two receipts that verify and two request ids."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, retry={"attempts": 3}), **AT_ONCE)
    home = tmp_path / "home"
    async with ScriptedWorker(served(CUT, answer("red"))) as worker:
        async with opened(path, settings_of(home, worker_url=worker.url)) as run:
            result = await run.answer(0)
            assert [each.to_json() for each in run.results()] == [result.to_json()]
        ids = [received.header("x-request-id") for received in worker.received[GATES:]]
        bodies = {received.body for received in worker.received[GATES:]}
    assert (result.outcome, result.answer) == (Outcome.COMPLETE, "red")
    assert _attempts(home) == [(1, Outcome.INCOMPLETE), (2, Outcome.COMPLETE)]
    first, second = receipts(home)
    assert [first.attempt.request_id, second.attempt.request_id] == ids
    assert len({*ids, first.attempt.id, second.attempt.id}) == 4
    assert len(bodies) == 1
    assert first.question_digest == second.question_digest == result.question_digest
    assert result.attempt == second.attempt.id
    assert _row_findings(home) == []
    assert left_behind(home) == []


def _row_findings(home: Path) -> list[Finding]:
    """What the ledger's rows say otherwise than the receipts beside them."""

    def look(storage: Storage) -> list[Finding]:
        names = [name for name, _ in storage.receipts.all(tenant="default")]
        return [finding for name in names for finding in row_findings(storage.ledger, name)]

    return reading(home, look)


_ONCE: dict[str, tuple[Reply, dict[str, Any], list[tuple[int, Outcome]]]] = {
    "nothing said": (CUT, {}, [(1, Outcome.INCOMPLETE)]),
    "tries used up": (CUT, {"retry": {"attempts": 2}}, [(1, Outcome.INCOMPLETE), (2, Outcome.INCOMPLETE)]),
    "busy throughout": (BUSY, {"retry": {"attempts": 2}}, [(1, Outcome.UNAVAILABLE), (2, Outcome.UNAVAILABLE)]),
    "a budget that may not change": (SHORT, {"retry": {"attempts": 3}}, [(1, Outcome.LENGTH_LIMITED)]),
    "an error of the engine": (Reply((b"{}",), status=500), {"retry": {"attempts": 3}}, [(1, Outcome.ENGINE_ERROR)]),
}


_PASSING = {
    "by status": Reply((b'{"message":"SenderPoisoned"}',), 500, (("content-type", "application/json"),)),
    "in the stream": Reply((chunk("re"), b"data: EnginePoisoned\n\n", DONE)),
}


@pytest.mark.parametrize("case", _PASSING)
async def test_an_error_that_passes_is_asked_again(tmp_path: Path, case: str) -> None:
    """The engine's thread died and the next request starts it anew: the second attempt is the answer."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, retry={"attempts": 3}), **AT_ONCE)
    async with (
        ScriptedWorker(served(_PASSING[case], answer("red"))) as worker,
        opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run,
    ):
        result = await run.answer(0)
    assert (result.outcome, result.answer) == (Outcome.COMPLETE, "red")
    assert _attempts(tmp_path / "home") == [(1, Outcome.ENGINE_ERROR), (2, Outcome.COMPLETE)]


@pytest.mark.parametrize("case", _ONCE)
async def test_no_more_is_tried_than_permitted_and_useful(tmp_path: Path, case: str) -> None:
    """The question ends as its last attempt did, and every attempt has its receipt."""
    reply, more, attempts = _ONCE[case]
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, **more), **AT_ONCE)
    async with ScriptedWorker(served(reply)) as worker:
        async with opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run:
            result = await run.answer(0)
        assert len(worker.received) == GATES + len(attempts)
    assert _attempts(tmp_path / "home") == attempts
    assert result.outcome is attempts[-1][1]


async def test_a_budget_grows_where_the_bundle_permits(tmp_path: Path) -> None:
    """Another budget is another question: both receipts verify, each with its own digest."""
    asked = ask("q", IMAGE, max_output_tokens=2, retry={"attempts": 2, "change_budget": True})
    path = write_bundle(tmp_path / "in", asked, **AT_ONCE)
    async with ScriptedWorker(served(SHORT, answer("red"))) as worker:
        async with opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run:
            result = await run.answer(0)
        assert _budgets(worker) == [2, 4]
    first, second = receipts(tmp_path / "home")
    assert (first.outcome, second.outcome, result.answer) == (Outcome.LENGTH_LIMITED, Outcome.COMPLETE, "red")
    assert first.question_digest != second.question_digest == result.question_digest
    assert [_budget(first), _budget(second)] == [2, 4]


def _budget(receipt: Receipt) -> Any:
    return (receipt.question or {})["max_output_tokens"]


async def test_tries_of_an_earlier_run_are_reused(tmp_path: Path) -> None:
    """Run again, the ledger has both: the budget that ran out and the one that sufficed. Nothing is asked."""
    asked = ask("q", IMAGE, max_output_tokens=2, retry={"attempts": 2, "change_budget": True})
    path = write_bundle(tmp_path / "in", asked, **AT_ONCE)
    for replies, sent in (([SHORT, answer("red")], 2), ([], 0)):
        async with ScriptedWorker(served(*replies)) as worker:
            settings = settings_of(tmp_path / "home", worker_url=worker.url)
            async with opened(path, settings, again=False) as run:
                result = await run.answer(0)
            assert len(worker.received) == GATES + sent
        assert (result.outcome, result.answer, result.from_ledger) == (Outcome.COMPLETE, "red", sent == 0)
    assert len(receipts(tmp_path / "home")) == 4


def _has_receipt(run: Run) -> bool:
    return any(each.receipt for each in run.results())


async def test_a_pause_can_be_canceled(tmp_path: Path) -> None:
    """Between two tries no attempt is open: the question keeps what the first came to, and no other follows."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, retry={"attempts": 5}))
    home = tmp_path / "home"
    async with ScriptedWorker(served(BUSY)) as worker:
        settings = settings_of(home, worker_url=worker.url)
        async with opened(path, settings) as run:
            answering = asyncio.create_task(run.answer(0))
            while not await asyncio.to_thread(_has_receipt, run):
                pass
            answering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await answering
    found = _attempts(home)
    assert found[0] == (1, Outcome.UNAVAILABLE)
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert len(worker.received) <= GATES + len(found)
    assert left_behind(home) == []
