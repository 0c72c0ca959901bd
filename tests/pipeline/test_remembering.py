"""Runs over a real origin: what is fetched once, what is not fetched again, and that receipts and ledger say so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contracts.digest import Digest
from contracts.outcome import Outcome
from contracts.receipt import Receipt
from contracts.result import QuestionResult
from tests.pipeline.desk import PNG, ask, opened, reading, receipts, served, settings_of, write_bundle
from tests.simulators.origin import Origin, Script, answer, origin
from tests.simulators.worker import ScriptedWorker
from tests.simulators.worker import answer as said

IMAGE = answer("200 OK", {"Content-Type": "image/png"}, PNG)
BIG = answer("200 OK", {"Content-Length": "999999999"}, b"x")
DENIED = "http://127.0.0.1:1/a.png"


class _House:
    """A home and a bundle that asks about the media of an origin, run as often as wanted."""

    def __init__(self, folder: Path, web: Origin, *sources: str | list[str], **more: Any) -> None:
        lists = [[source] if isinstance(source, str) else source for source in sources]
        urls = [[url if "://" in url else web.url(url) for url in each] for each in lists]
        questions = [ask(f"q{index}", *({"image": url} for url in each)) for index, each in enumerate(urls)]
        self.path = write_bundle(folder / "in", *questions)
        self.home = folder / "home"
        self.web = web
        self.more = more

    async def run(self, *, again: bool = False) -> tuple[str, list[QuestionResult], list[bytes]]:
        """One run: its id, its results in order, and the requests that the origin had from it."""
        before = len(self.web.requests)
        async with ScriptedWorker(served(*[said("red")] * 8)) as worker:
            settings = settings_of(self.home, worker_url=worker.url, port=self.web.port, **self.more)
            async with opened(self.path, settings, again=again) as run:
                await run.answer_range(range(len(run.questions)))
                return run.id, list(run.results()), self.web.requests[before:]

    def receipts(self, run: str) -> list[Receipt]:
        """The receipts of a run, each verified, by question."""
        found = [receipt for receipt in receipts(self.home) if receipt.run == run]
        return sorted(found, key=lambda receipt: receipt.question_id)

    def acquisitions(self, run: str) -> list[dict[str, Any]]:
        """The ledger's records of a run, by question and part."""
        found = reading(self.home, lambda storage: storage.acquisitions.of_run(run, tenant="default"))
        return sorted(found, key=lambda record: (record["question_id"], record["part_index"]))


_ENDS: dict[str, tuple[str, dict[str, Script], Outcome, str, bool]] = {
    "not there": ("/a", {"/a": answer("404 Not Found")}, Outcome.SOURCE_FAILED, "http-status", True),
    "over the cap": ("/a", {"/a": BIG}, Outcome.SOURCE_FAILED, "body-over-limit", True),
    "encoded": ("/a", {"/a": answer("200 OK", {"Content-Encoding": "gzip"}, b"x")}, Outcome.SOURCE_FAILED,
                "content-encoding", True),
    "denied itself": (DENIED, {}, Outcome.REFUSED, "port", True),
    "busy": ("/a", {"/a": answer("503 Busy")}, Outcome.SOURCE_FAILED, "http-status", False),
    "cut short": ("/a", {"/a": answer("200 OK", {"Content-Length": "9"}, b"x")}, Outcome.SOURCE_FAILED,
                  "body-truncated", False),
    "redirected inside": ("/a", {"/a": answer("302 Found", {"Location": DENIED})}, Outcome.REFUSED, "port", False),
}  # fmt: skip


@pytest.mark.parametrize("case", _ENDS)
async def test_a_rerun_asks_only_for_what_can_change(tmp_path: Path, case: str) -> None:
    """The second run has the same outcome; it says so where it did not ask. With `--again` the source is asked."""
    source, scripts, outcome, rule, lasts = _ENDS[case]
    async with origin(scripts) as web:
        house = _House(tmp_path, web, source, fetch_tries=1)
        first, (before,), asked = await house.run()
        second, (after,), asked_then = await house.run()
        _, (anew,), asked_anew = await house.run(again=True)
    assert {(each.outcome, each.rule) for each in (before, after, anew)} == {(outcome, rule)}
    assert before.reason is not None
    assert after.reason is not None
    assert len(asked_anew) == len(asked)
    assert len(asked_then) == (0 if lasts else len(asked))
    (record,) = house.acquisitions(second)
    assert record["failure"]["rule"] == rule
    if lasts:
        assert after.reason.startswith(before.reason)
        assert first in after.reason
        assert (record["origin"], record["tries"], record["hops"]) == ({"remembered": first}, 0, [])
    else:
        assert (record["origin"], record["tries"]) == ({}, 1)
        assert len(record["hops"]) == 1


async def test_what_came_back_is_fetched_from_then_on(tmp_path: Path) -> None:
    """A URL that was not there and is: `--again` finds it, and no later run repeats the old failure."""
    scripts = {"/a": answer("404 Not Found")}
    async with origin(scripts) as web:
        house = _House(tmp_path, web, "/a")
        await house.run()
        scripts["/a"] = IMAGE
        _, (remembered,), _ = await house.run()
        _, (found,), _ = await house.run(again=True)
        _, (later,), asked = await house.run()
    assert (remembered.outcome, found.outcome, later.outcome) == (
        Outcome.SOURCE_FAILED,
        Outcome.COMPLETE,
        Outcome.COMPLETE,
    )
    assert len(asked) == 1


async def test_another_tenant_is_told_nothing(tmp_path: Path) -> None:
    """What one tenant's run met, another tenant's asks for itself."""
    async with origin({"/a": answer("404 Not Found")}) as web:
        house = _House(tmp_path, web, "/a")
        await house.run()
        house.more["tenant"] = "another"
        _, _, asked = await house.run()
    assert len(asked) == 1


async def test_a_failed_part_has_its_record_in_the_receipt(tmp_path: Path) -> None:
    """Of three parts the second fails: the first two have their acquisition, the third has none; the receipt holds."""
    async with origin({"/a?token=secret": IMAGE, "/b?token=secret": answer("404 Not Found")}) as web:
        house = _House(tmp_path, web, ["/a?token=secret", "/b?token=secret", "/c"])
        run, (result,), _ = await house.run()
    (receipt,) = house.receipts(run)
    had, failed, never, _ = receipt.parts
    assert result.outcome is receipt.outcome is Outcome.SOURCE_FAILED
    assert (had.acquisition or {})["failure"] is None
    assert had.artifact is not None
    record = failed.acquisition
    assert record is not None
    assert failed.artifact is None
    assert failed.locator is not None
    assert (record["failure"]["rule"], record["hops"][0]["status"]) == ("http-status", 404)
    assert record["policy_digest"] == (receipt.policy and receipt.policy.digest)
    assert never.acquisition is None
    assert house.acquisitions(run) == [
        {"question_id": "q0", "part_index": 0, **(had.acquisition or {})},
        {"question_id": "q0", "part_index": 1, **record},
    ]
    assert b"secret" not in receipt.to_bytes()


async def test_bytes_that_are_no_medium_have_their_record(tmp_path: Path) -> None:
    """What was had and then rejected is a refusal whose receipt says where the bytes came from."""
    async with origin({"/a": answer("200 OK", {}, b"no medium")}) as web:
        house = _House(tmp_path, web, "/a", "/a")
        run, results, asked = await house.run()
    assert {result.outcome for result in results} == {Outcome.REFUSED}
    assert len({result.rule for result in results}) == 1
    assert len(asked) == 1
    own, shared = (receipt.parts[0].acquisition or {} for receipt in house.receipts(run))
    assert own["digest"] == shared["digest"]


@pytest.mark.parametrize("dedupe", [True, False], ids=["shared", "each by itself"])
async def test_parts_that_name_the_same_url(tmp_path: Path, dedupe: bool) -> None:
    """In one question and in several: one fetch for all of them, named by those that share it, or one for each."""
    async with origin({"/a?x=1": IMAGE, "/a?x=2": IMAGE}) as web:
        house = _House(tmp_path, web, ["/a?x=1", "/a?x=1"], "/a?x=1", "/a?x=2", fetch_dedupe=dedupe)
        run, results, asked = await house.run()
    assert {result.outcome for result in results} == {Outcome.COMPLETE}
    assert len(asked) == (2 if dedupe else 4)
    parts = {
        f"{receipt.attempt.id}/{part.index}": part
        for receipt in house.receipts(run)
        for part in receipt.parts
        if part.kind == "image"
    }
    assert len({part.artifact.digest for part in parts.values() if part.artifact}) == 1
    named = [(part.acquisition or {})["origin"].get("shared") for part in parts.values()]
    assert sum(name is not None for name in named) == (2 if dedupe else 0)
    for name in filter(None, named):
        assert (parts[name].acquisition or {})["origin"] == {}
    assert len(house.acquisitions(run)) == 4


async def test_a_shared_fetch_answers_to_what_each_part_expects(tmp_path: Path) -> None:
    """Three questions about one URL: two expect other bytes and fail, one names none and is answered."""
    async with origin({"/a": IMAGE}) as web, ScriptedWorker(served(said("red"))) as worker:
        url = web.url("/a")
        wrong = {"image": url, "sha256": "0" * 64}
        path = write_bundle(tmp_path / "in", ask("q0", wrong), ask("q1", {"image": url}), ask("q2", wrong))
        settings = settings_of(tmp_path / "home", worker_url=worker.url, port=web.port)
        async with opened(path, settings) as run:
            await asyncio.gather(*(run.answer(position) for position in range(3)))
            outcomes = [(result.outcome, result.rule) for result in run.results()]
    mismatch = (Outcome.SOURCE_FAILED, "sha256-mismatch")
    assert outcomes == [mismatch, (Outcome.COMPLETE, None), mismatch]
    assert len(web.requests) <= 2
    for receipt in receipts(tmp_path / "home"):
        record = receipt.parts[0].acquisition or {}
        assert record["digest"] is not None
        assert record["expected_digest"] == (None if receipt.question_id == "q1" else "sha256:" + "0" * 64)


async def test_kept_bytes_are_nobodys_source(tmp_path: Path) -> None:
    """Bytes that were kept aside are in the store, the receipt that says so verifies, and no part can name them."""
    kept = f"sha256:{Digest.of(PNG).hex}"
    async with origin({"/a": IMAGE}) as web, ScriptedWorker(served()) as worker:
        wrong = ask("q0", {"image": web.url("/a"), "sha256": "0" * 64})
        path = write_bundle(tmp_path / "in", wrong, ask("q1", {"image": kept}))
        settings = settings_of(tmp_path / "home", worker_url=worker.url, port=web.port)
        keeping = {name: replace(policy, keep_mismatched=True) for name, policy in settings.policies.items()}
        async with opened(path, replace(settings, policies=keeping)) as run:
            results = [await run.answer(position) for position in range(2)]
    assert [(result.outcome, result.rule) for result in results] == [
        (Outcome.SOURCE_FAILED, "sha256-mismatch"),
        (Outcome.SOURCE_FAILED, "blob-unknown"),
    ]
    assert reading(tmp_path / "home", lambda storage: storage.blobs.exists(Digest.parse(kept)))
    (record,) = (receipt.parts[0].acquisition or {} for receipt in receipts(tmp_path / "home")[:1])
    assert record["origin"] == {"kept": record["digest"]} == {"kept": kept}
