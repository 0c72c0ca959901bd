"""The embedded worker's life: it starts, it stops, and it never outlives who started it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.errors import WorkerUnavailable
from contracts.outcome import Outcome
from serving.embedded_worker import EmbeddedWorker
from serving.model_bundle import ModelBundle, measured
from tests.engine_worker import ask
from tests.tiny_bundle import write_tiny_bundle
from tests.world import golden_cases, question_of

pytestmark = [pytest.mark.engine]

_ROOT = Path(__file__).parents[2]
_PARENT = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[1])
from serving.embedded_worker import EmbeddedWorker

async def main():
    home = pathlib.Path(sys.argv[2])
    async with EmbeddedWorker(home, home / "staging") as worker:
        print(worker.pid, worker.url, flush=True)
        await worker.wait()

asyncio.run(main())
"""


def _gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def _wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while not _gone(pid) and time.monotonic() < deadline:
        os.sched_yield()
    return _gone(pid)


async def test_sigterm_is_clean(engine_home: Path) -> None:
    """Stopping asks with SIGTERM, and the process ends by itself with code 0."""
    running = EmbeddedWorker(engine_home, engine_home / "staging")
    async with running:
        pid = running.pid
        assert pid is not None
        code = await running.stop()
    assert code == 0
    assert _gone(pid)
    assert repr(running) == "<EmbeddedWorker stopped pid None>"


async def test_death_is_seen(engine_home: Path) -> None:
    """Who waits on the worker learns that it was killed, and by what."""
    async with EmbeddedWorker(engine_home, engine_home / "staging") as running:
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        assert await running.wait() == -signal.SIGKILL


def test_dies_with_parent(engine_home: Path) -> None:
    """A parent killed with SIGKILL takes its worker with it."""
    argv = [sys.executable, "-c", _PARENT, str(_ROOT), str(engine_home)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        parent.kill()
        parent.wait()
    assert _wait_gone(pid)


async def test_start_failure_names_the_log(engine_home: Path, tmp_path: Path) -> None:
    """A bundle that the engine cannot load ends the start with the log's place; no process is left."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "config.json").write_text("{}")
    log = tmp_path / "worker.log"
    broken = EmbeddedWorker(engine_home, engine_home / "staging", bundle=measured(tmp_path / "bundle"), log_path=log)
    with pytest.raises(WorkerUnavailable, match="its process ended while it started") as caught:
        await broken.__aenter__()
    assert str(log) in caught.value.reason
    assert broken.pid is None


async def test_port_in_use(worker: EmbeddedWorker, engine_home: Path) -> None:
    """A port that another worker has is a failed start, not a second server behind it."""
    port = int(worker.url.rpartition(":")[2])
    with pytest.raises(WorkerUnavailable, match="worker-start"):
        await EmbeddedWorker(engine_home, engine_home / "staging", port=port).__aenter__()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelBundle:
    """The random bundle."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_bundle(folder)
    return measured(folder)


async def test_second_identity(worker: EmbeddedWorker, engine_home: Path, tiny: ModelBundle) -> None:
    """The random bundle is another release under another identity, gives other text, and is no calibration model."""
    staging = worker.staging_root
    golden = golden_cases()[0]
    async with EmbeddedWorker(engine_home, staging, bundle=tiny) as other:
        assert other.release.identity() != worker.release.identity()
        assert other.release.route != worker.release.route
        assert (other.release.calibration_model, worker.release.calibration_model) == (False, True)
        got = await ask(other, question_of(golden.draw(), staging))
    assert got.outcome in {Outcome.COMPLETE, Outcome.LENGTH_LIMITED}
    assert got.text != golden.answer


async def test_identity_is_the_same_everywhere(worker: EmbeddedWorker, tmp_path: Path) -> None:
    """The identity does not depend on where the home is: a worker of another home serves the same release."""
    async with EmbeddedWorker(tmp_path / "elsewhere", tmp_path / "staging") as other:
        assert other.release == worker.release


async def test_log_holds_no_prompt(tmp_path: Path, engine_home: Path) -> None:
    """The worker's log holds neither the question nor the answer, nor where media are staged."""
    log = tmp_path / "worker.log"
    golden = golden_cases()[0]
    async with EmbeddedWorker(engine_home, tmp_path / "staging", log_path=log) as running:
        got = await ask(running, question_of(golden.draw(), running.staging_root))
    assert got.text == golden.answer
    text = await asyncio.to_thread(log.read_text)
    assert golden.question not in text
    assert golden.answer not in text
    assert str(running.staging_root) not in text
