"""The flow on a real Prefect server of our own: task runs for few questions, shards for many, the ledger for all."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from cli.prefect_client import speaking_to
from cli.prefect_server import prefect_server
from tests.command import left_behind
from tests.pipeline.desk import GATES, ask, opened, reading, receipts, served, settings_of, write_bundle
from tests.simulators.worker import ScriptedWorker, answer

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # Prefect leaves its own clients to the collector
]

IMAGE = {"image": "circle.png"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The API of a running server, with this process's client turned to it."""
    home = tmp_path_factory.mktemp("prefect")
    async with prefect_server(home / "server", home / "logs") as api_url, speaking_to(api_url, home / "client"):
        yield api_url
    with warnings.catch_warnings():  # here, so that Prefect's clients do not warn in another's test
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def _ask_server(api: str, what: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(f"{api}/{what}/filter", json=query)
        assert response.status_code == httpx.codes.OK, response.text
        found: list[dict[str, Any]] = response.json()
        return found


async def test_few_questions(api: str, tmp_path: Path) -> None:
    """A flow that is opened by itself, from the settings, answers each question in a task run of its own; a bad
    question is an outcome and not a failed run. It returns the run, the counts and the report."""
    from flows.analyze_bundle import analyze_bundle
    from tasks.parameters import AnalysisOptions, BundleParameters

    path = write_bundle(tmp_path / "in", ask("good", IMAGE), ask("bad", {"image": "absent.png"}))
    async with ScriptedWorker(served(answer("red"))) as worker:
        with pytest.MonkeyPatch.context() as environment:  # of this process, which is where a deployment's come from
            environment.setenv("MOSAIC_HOME", str(tmp_path / "home"))
            environment.setenv("MOSAIC_WORKER_URL", worker.url)
            options = AnalysisOptions(again=True, complete_share=0.5, tags=["case-7"])
            state: Any = await analyze_bundle(BundleParameters(path=str(path)), options, return_state=True)
    summary: dict[str, Any] = await state.result()
    assert state.is_completed()
    assert summary["outcomes"] == {"complete": 1, "source_failed": 1}
    assert summary["report"] in map(str, (tmp_path / "home" / "reports").iterdir())
    assert len(receipts(tmp_path / "home")) == 2
    assert left_behind(tmp_path / "home") == []
    run = reading(tmp_path / "home", lambda storage: storage.runs.get(summary["run"], tenant="default"))
    assert (run.questions, run.done) == (2, 2)


async def test_many_questions(api: str, tmp_path: Path) -> None:
    """More questions than may be task runs go in shards of the run that the caller opened: all are answered, in the
    ledger, and Prefect holds as many task runs as there are shards."""
    from flows.analyze_bundle import analyze_bundle
    from tasks.analysis import QUESTION_TASKS, SHARD_QUESTIONS, prepared
    from tasks.parameters import BundleParameters

    count = SHARD_QUESTIONS + QUESTION_TASKS
    path = write_bundle(tmp_path / "in", *(ask(f"q{n}", IMAGE, max_output_tokens=n + 2) for n in range(count)))
    begun: list[str] = []
    async with ScriptedWorker(served(answer("red"))) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run, prepared(run, inside=lambda: begun.append("flow")):
            state: Any = await analyze_bundle(BundleParameters(path=str(path)), return_state=True)
            results = list(run.results())
        assert len(worker.received) == GATES + count
    summary = await state.result()
    assert begun == ["flow"]
    assert (summary["run"], summary["outcomes"]) == (run.id, {"complete": count})
    assert [result.id for result in results] == [f"q{n}" for n in range(count)]
    assert len(receipts(tmp_path / "home")) == count
    assert left_behind(tmp_path / "home") == []
    flows = await _ask_server(api, "flow_runs", {"sort": "START_TIME_DESC", "limit": 1})
    assert [(each["name"], each["state_type"]) for each in flows] == [("bundle.json", "COMPLETED")]
    assert flows[0]["estimated_run_time"] >= 0


async def test_cannot_work(api: str, tmp_path: Path) -> None:
    """A flow that cannot open its run fails with our reason; nothing is left."""
    from flows.analyze_bundle import analyze_bundle
    from tasks.parameters import AnalysisOptions, BundleParameters

    path = write_bundle(tmp_path / "in", ask("q", IMAGE))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MOSAIC_HOME", str(tmp_path / "home"))
        options = AnalysisOptions.model_validate({"limits": [{"name": "image_bytes", "value": 2.0**50}]})
        state: Any = await analyze_bundle(BundleParameters(path=str(path)), options, return_state=True)
    assert state.is_failed()
    assert "limits-only-narrow" in (state.message or "")


async def test_what_a_person_sees(api: str, tmp_path: Path) -> None:
    """Fewer complete answers than asked for fail the flow run, with its tags, and everything is shown all the same: the
    progress, the counts, the table with the failure first, the link. What a bundle says is text and no markup."""
    from prefect.logging.handlers import APILogHandler

    from flows.analyze_bundle import analyze_bundle
    from tasks.parameters import AnalysisOptions, BundleParameters

    questions = (ask("good", IMAGE), ask("bad", {"image": "absent.png"}))
    path = write_bundle(tmp_path / "in", *questions, id="case-7")
    async with ScriptedWorker(served(answer("<img src=x> red"))) as worker:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MOSAIC_HOME", str(tmp_path / "home"))
            environment.setenv("MOSAIC_WORKER_URL", worker.url)
            environment.setenv("MOSAIC_REPORTS_URL", "http://127.0.0.1:9/reports/")
            options = AnalysisOptions(again=True, complete_share=0.9, tags=["case-8"])
            state: Any = await analyze_bundle(BundleParameters(path=str(path)), options, return_state=True)
    assert state.is_failed()
    assert "1 of 2 questions are complete, fewer than the share 0.9" in state.message
    [flow] = await _ask_server(api, "flow_runs", {"flow_runs": {"tags": {"all_": ["case-8"]}}})
    assert flow["state_type"] == "FAILED"
    artifacts = await _ask_server(api, "artifacts", {"flow_runs": {"id": {"any_": [flow["id"]]}}})
    shown = {each["key"] or each["type"]: each["data"] for each in artifacts}
    run = state.message.split()[1].rstrip(":")
    assert shown["progress"] == 100.0
    assert "| complete | 1 |" in shown["summary"]
    assert "case&#45;7" in shown["summary"]
    assert f"(http://127.0.0.1:9/reports/{run}.html)" in shown["report"]
    assert [row["question"] for row in json.loads(shown["questions"])] == ["bad", "good"]
    await APILogHandler.aflush()
    logs = await _ask_server(api, "logs", {"logs": {"flow_run_id": {"any_": [flow["id"]]}}})
    refused = [each["message"] for each in logs if " by " in each["message"]]
    assert refused == [f"{run} question bad: source_failed by file-missing"]


async def test_a_bundle_that_is_pasted(api: str, tmp_path: Path) -> None:
    """It needs no file on the host, and a faulty one is refused with its line before anything is opened."""
    from flows.analyze_bundle import analyze_bundle
    from tasks.parameters import AnalysisOptions

    text = "version: 1\nid: pasted\nquestions:\n  - {id: q, parts: [{text: 'Is it?'}]}\n"
    async with ScriptedWorker(served(answer("red"))) as worker:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MOSAIC_HOME", str(tmp_path / "home"))
            environment.setenv("MOSAIC_WORKER_URL", worker.url)
            state: Any = await analyze_bundle({"text": text}, AnalysisOptions(complete_share=0), return_state=True)
            faulty: Any = await analyze_bundle({"text": text.replace("text:", "txt:")}, return_state=True)
    assert (await state.result())["outcomes"] == {"complete": 1}
    assert faulty.is_failed()
    assert "bundle:4: " in faulty.message
