"""A run: bounded, overlapped, answered from the ledger the second time, and closed whatever happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from contracts.errors import EvidenceError, InputError, WorkerUnavailable
from contracts.outcome import Outcome
from contracts.result import QuestionResult
from pipeline.running import Run
from storage.home import Storage
from storage.runs import RunState
from tests.command import eventually, left_behind, open_attempts
from tests.pipeline.desk import GATES, PNG, ask, load, opened, reading, receipts, served, settings_of, write_bundle
from tests.simulators import origin as web
from tests.simulators.worker import End, Reply, ScriptedWorker, answer, chunk

IMAGE = {"image": "circle.png"}


async def _open_attempts(home: Path, count: int) -> None:
    """Wait until exactly so many attempts are open."""
    await eventually(lambda: len(open_attempts(home)) == count, f"{count} open attempts")


async def test_bounded_and_overlapped(tmp_path: Path) -> None:
    """While the worker answers one question the next are fetched and made ready, and of the others none is begun:
    as many are in work as one slot and the lookahead, however many there are."""
    scripts = {f"/{number}.png": web.answer("200 OK", body=PNG) for number in range(40)}
    async with web.origin(scripts) as origin, ScriptedWorker(served(Reply((chunk("re"),), end=End.STALL))) as worker:
        settings = settings_of(
            tmp_path / "home", worker_url=worker.url, port=origin.port, worker_slots=1, lookahead_questions=2
        )
        path = write_bundle(tmp_path / "in", *(ask(f"q{n}", {"image": origin.url(f"/{n}.png")}) for n in range(40)))
        async with opened(path, settings) as run:
            working = asyncio.create_task(run.answer_range(range(40)))
            await _open_attempts(settings.home, 3)  # an attempt is open once its media are in the store
            assert len(worker.received) <= GATES + 1  # the gates, and the one question that has the slot
            assert len(origin.requests) == 3
            assert list(run.results()) == []
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert len(origin.requests) == 3
        results = _results(settings.home, run)
    assert {result.outcome for result in results} == {Outcome.CANCELED}
    assert [result.receipt is not None for result in results] == [True] * 3 + [False] * 37
    assert {receipt.outcome for receipt in receipts(settings.home)} == {Outcome.CANCELED}
    assert len(receipts(settings.home)) == 3
    assert left_behind(settings.home) == []


async def test_bounded_without_a_shard(tmp_path: Path) -> None:
    """Questions that are asked one by one, as task runs are, are held to the same bound; and the run does not close
    before those in work are recorded, though a canceled gather waits for none of them."""
    async with ScriptedWorker(served(Reply((chunk("re"),), end=End.STALL))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url, worker_slots=1, lookahead_questions=1)
        path = write_bundle(tmp_path / "in", *(ask(f"q{n}", IMAGE, max_output_tokens=n + 1) for n in range(10)))
        async with opened(path, settings) as run:
            working = asyncio.gather(*(run.answer(position) for position in range(10)))
            await _open_attempts(settings.home, 2)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        tried = [result.receipt is not None for result in _results(settings.home, run)]
        assert tried == [True] * 2 + [False] * 8
        assert left_behind(settings.home) == []


def _results(home: Path, run: Run) -> list[QuestionResult]:
    return reading(home, lambda storage: list(storage.runs.results(run.id)))


async def test_ledger(tmp_path: Path) -> None:
    """What this identity has answered is answered from the ledger: nothing is sent, the receipt names the one that
    answered, and the result says so. `again` asks the worker. A question that failed is asked again in any case."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE, labels={"n": "1"}), ask("bad", IMAGE, max_output_tokens=3))
    broken = Reply((b"",), status=500)
    async with ScriptedWorker(served(answer("red"), broken)) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url, worker_slots=1, lookahead_questions=0)
        async with opened(path, settings, again=False) as run:
            await run.answer_range(range(2))
            first, failed = run.results()
    relabeled = write_bundle(
        tmp_path / "in", ask("other", IMAGE, labels={"n": "2"}), ask("bad", IMAGE, max_output_tokens=3)
    )
    async with ScriptedWorker(served(answer("blue"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(relabeled, settings, again=False) as run:
            told: list[str] = []
            run.tell(lambda result: told.append(result.id))
            await run.answer_range(range(2))
            second, retried = run.results()
        assert len(worker.received) == GATES + 1  # the failed one alone
    async with ScriptedWorker(served(answer("blue"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(relabeled, settings, again=True) as run:
            third = await run.answer(0)
    assert (failed.outcome, retried.outcome, retried.from_ledger) == (Outcome.ENGINE_ERROR, Outcome.COMPLETE, False)
    assert (second.id, second.labels, second.answer) == ("other", {"n": "2"}, "red")
    assert second.from_ledger
    assert not first.from_ledger
    assert second.receipt != first.receipt
    assert (second.request_digest, second.stream_digest) == (first.request_digest, first.stream_digest)
    assert sorted(told) == ["bad", "other"]
    assert (third.answer, third.from_ledger) == ("blue", False)
    assert third.question_digest == first.question_digest
    kept = receipts(tmp_path / "home")
    assert len(kept) == 5
    assert [receipt.reused for receipt in kept if receipt.question_id == "other"] == [first.receipt, None]


async def test_closed(tmp_path: Path) -> None:
    """A run's row says running while it is open and finished after it; its quarantine is gone."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE))
    async with ScriptedWorker(served(answer("red"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)

        def state(storage: Storage) -> RunState:
            return storage.runs.get(run.id, tenant="default").state

        async with opened(path, settings) as run:
            assert reading(settings.home, state) is RunState.RUNNING
            assert (settings.home / "quarantine" / run.id).is_dir()
        assert reading(settings.home, state) is RunState.FINISHED
    assert left_behind(settings.home) == []


async def test_worker_that_is_not_ready(tmp_path: Path) -> None:
    """A configured worker that does not serve the release stops the start, naming the gate, and no run is written."""
    path = write_bundle(tmp_path / "in", ask("q", IMAGE))
    async with ScriptedWorker([Reply((b"OK",)), Reply((b'{"data":[]}',))]) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        with pytest.raises(WorkerUnavailable, match="gate models"):
            async with opened(path, settings):
                raise AssertionError("the run must not open")
    assert reading(settings.home, lambda storage: storage.runs.list()) == []


async def test_storage_that_fails(tmp_path: Path) -> None:
    """A ledger that can no longer be written ends the shard with its own error, not with a group of them."""
    path = write_bundle(tmp_path / "in", *(ask(f"q{n}", IMAGE) for n in range(5)))
    async with ScriptedWorker(served(answer("red"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        with pytest.raises(EvidenceError) as raised:  # noqa: PT012  # closing the run fails as well
            async with opened(path, settings) as run:
                reading(settings.home, _drop)
                await run.answer_range(range(5))
    assert not isinstance(raised.value, ExceptionGroup)


def _drop(storage: Storage) -> None:
    with storage.ledger.write() as tx:
        tx.execute(text("ALTER TABLE attempt RENAME TO gone"))


@pytest.mark.parametrize(
    ("top", "rule"),
    [
        ({"tenant": "another"}, "bundle-tenant"),
        ({"policy": "another"}, "bundle-policy"),
        ({"limits": {"image_bytes": 2**40}}, "limits-only-narrow"),
        ({"surprise": 1}, "bundle-unknown-key"),
    ],
)
def test_refused_bundles(tmp_path: Path, top: dict[str, object], rule: str) -> None:
    """A bundle that asserts another deployment, widens a limit or has an unknown key is refused as it is read."""
    path = write_bundle(tmp_path, ask("q", IMAGE), **top)
    with pytest.raises(InputError) as raised:
        load(path, settings_of(tmp_path / "home"))
    assert raised.value.rule == rule


def test_bundle_that_cannot_be_read(tmp_path: Path) -> None:
    """A bundle that is not there is an input error that names it."""
    with pytest.raises(InputError, match=r"absent\.yaml"):
        load(tmp_path / "absent.yaml", settings_of(tmp_path / "home"))


def test_narrowed(tmp_path: Path) -> None:
    """What a bundle narrows is in force for its run."""
    path = write_bundle(tmp_path, ask("q", IMAGE), limits={"image_bytes": 1000})
    assert load(path, settings_of(tmp_path / "home")).limits.image_bytes == 1000
