"""Stopped in the middle, by Ctrl-C, SIGTERM or SIGKILL, a run loses nothing and leaves nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.home import Storage
from tests.command import Mosaic, children_of, left_behind, open_attempts, stop, until
from tests.pipeline.desk import GATES, POLICY, ask, reading, receipts, served, write_bundle
from tests.simulators import origin as web
from tests.simulators.worker import End, Reply, ScriptedWorker, chunk

GOOD = ask("good", {"image": "circle.png"})
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 9000000\r\n\r\n\x89PNG\r\n\x1a\n"


@asynccontextmanager
async def _slow_bundle(folder: Path) -> AsyncIterator[tuple[Path, dict[str, str]]]:
    """A bundle of a good question and one whose source never comes to its end, and the settings that allow it."""
    async with web.origin({"/slow.png": web.drip(_ENDLESS, bytes(500), 0.02)}) as origin:
        path = write_bundle(folder, ask("slow", {"image": origin.url("/slow.png")}), GOOD, ask("bad", {"image": "x"}))
        toml = folder / "mosaic.toml"
        toml.write_text(
            f'policy = "{POLICY}"\ndecode_workers = 1\n[policies.{POLICY}]\nschemes = ["http"]\n'
            f'ports = [{origin.port}]\nunsafe_allow_networks = ["127.0.0.1/32"]\n'
        )
        yield path, {"MOSAIC_SETTINGS": str(toml)}


def _results(storage: Storage) -> dict[str, tuple[str, bool]]:
    """Outcome, and whether there is a receipt, of every question of the one run."""
    runs = storage.runs.list()
    found = storage.runs.results(runs[0].id) if runs else ()
    return {result.id: (result.outcome.value, result.receipt is not None) for result in found}


def _busy(mosaic: Mosaic) -> bool:
    """Whether the questions that can end have ended, so that only the slow one is in work."""
    known = (mosaic.home / "ledger").is_dir()
    return known and {"good", "bad"} <= reading(mosaic.home, _results).keys()


async def _stopped_while_busy(mosaic: Mosaic, process: subprocess.Popen[str], number: signal.Signals) -> Any:
    """Wait for the state, note the children, send the signal; the end and the children."""

    def wait_and_stop() -> Any:
        until(lambda: process.poll() is not None or _busy(mosaic), "the good questions answered")
        children = children_of(process.pid, mosaic.home)
        return stop(process, number), children

    return await asyncio.to_thread(wait_and_stop)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("number", "code", "options"),
    [
        pytest.param(signal.SIGINT, 130, ["--direct"], id="SIGINT"),
        pytest.param(signal.SIGTERM, 143, ["--direct"], id="SIGTERM"),
        pytest.param(signal.SIGINT, 130, [], id="SIGINT-prefect", marks=pytest.mark.prefect),
        pytest.param(signal.SIGTERM, 143, [], id="SIGTERM-prefect", marks=pytest.mark.prefect),
    ],
)
async def test_stopped(mosaic: Mosaic, tmp_path: Path, number: signal.Signals, code: int, options: list[str]) -> None:
    """Ctrl-C and SIGTERM cancel what is in work: it has a valid receipt that says so, leases and files are gone,
    every child has ended, and the exit code is the shell's for that signal."""
    async with _slow_bundle(tmp_path / "in") as (path, variables):
        mosaic = replace(mosaic, variables=variables)
        process = mosaic.start("run", path, *options)
        ended, children = await _stopped_while_busy(mosaic, process, number)
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert len(children) >= 3 + (not options), children
    assert children_of(process.pid, mosaic.home) == {}
    assert left_behind(mosaic.home) == []
    assert reading(mosaic.home, _results) == {
        "good": ("complete", True),
        "slow": ("canceled", True),
        "bad": ("source_failed", True),
    }
    assert len(receipts(mosaic.home)) == 3


@pytest.mark.engine
@pytest.mark.prefect
async def test_killed_with_prefect(mosaic: Mosaic, tmp_path: Path) -> None:
    """After kill -9 every child dies by itself, Prefect's server too; reap closes the run, and it can be run again."""
    async with _slow_bundle(tmp_path / "in") as (path, variables):
        mosaic = replace(mosaic, variables=variables)
        process = mosaic.start("run", path)
        _, children = await _stopped_while_busy(mosaic, process, signal.SIGKILL)
    assert any("prefect" in command for command in children.values()), children
    assert any("serving.embedded.main" in command for command in children.values()), children
    assert len(children) >= 4, children
    await asyncio.to_thread(until, lambda: not children_of(process.pid, mosaic.home), "every child dead")
    reaped = mosaic("reap", "--json").object
    assert (reaped["runs_abandoned"], reaped["questions_abandoned"]) == (1, 1)
    assert reaped["quarantine_removed"] == 1
    assert left_behind(mosaic.home) == []
    assert reading(mosaic.home, _results)["slow"] == ("abandoned", False)
    again = mosaic("run", write_bundle(tmp_path / "again", GOOD), "--direct", "--json")
    assert (again.code, again.object["questions"][0]["from_ledger"]) == (0, True)
    assert left_behind(mosaic.home) == []


async def test_killed_while_submitted(mosaic: Mosaic, tmp_path: Path) -> None:
    """After kill -9 a lease and its file are left; reap removes them and closes the attempt as abandoned, with a
    receipt that verifies. A second reap finds nothing."""
    path = write_bundle(tmp_path / "in", GOOD)
    async with ScriptedWorker(served(Reply((chunk("re"),), end=End.STALL))) as worker:
        mosaic = replace(mosaic, variables={"MOSAIC_WORKER_URL": worker.url})
        process = mosaic.start("run", path, "--direct")
        await worker.has_been_asked(GATES + 1)
        children = children_of(process.pid, mosaic.home)
        await asyncio.to_thread(stop, process, signal.SIGKILL)
        await worker.left.wait()
    assert len(children) >= 2, children
    await asyncio.to_thread(until, lambda: not children_of(process.pid, mosaic.home), "every child dead")
    (attempt,) = open_attempts(mosaic.home)
    assert any("lease" in left for left in left_behind(mosaic.home))
    assert any(left.endswith(".png") for left in left_behind(mosaic.home))
    reaped = mosaic("reap", "--json").object
    assert reaped["findings"] == []
    counted = {name: count for name, count in reaped.items() if count and name != "findings"}
    assert counted == {
        "leases_expired": 1, "files_unlinked": 1, "runs_abandoned": 1, "attempts_abandoned": 1, "quarantine_removed": 1
    }  # fmt: skip
    assert left_behind(mosaic.home) == []
    (receipt,) = receipts(mosaic.home)
    assert (receipt.attempt.id, receipt.outcome.value) == (attempt, "abandoned")
    assert receipt.request is not None
    again = mosaic("reap", "--json").object
    assert not any(count for name, count in again.items() if name != "findings")


@pytest.mark.engine
async def test_stopped_while_it_starts(mosaic: Mosaic, tmp_path: Path) -> None:
    """SIGTERM while the children still start ends all of them, and nothing was begun."""
    process = mosaic.start("run", write_bundle(tmp_path / "in", GOOD))

    def wait_and_stop() -> Any:
        until(lambda: len(children_of(process.pid, mosaic.home)) >= 2, "children that start")
        return stop(process, signal.SIGTERM)

    ended = await asyncio.to_thread(wait_and_stop)
    assert ended.code == 143, ended.err
    assert "Traceback" not in ended.err
    assert children_of(process.pid, mosaic.home) == {}
    assert left_behind(mosaic.home) == []
