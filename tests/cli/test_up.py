"""The single-host stack, real in every part: up, used, hurt, mended, killed, up again, down, and nothing left.

One stack for the module, and its tests in order: each leaves it up for the next. It keeps ledger and blobs in itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts.version import VERSION
from sandbox.descendants import children as children_of_process
from sandbox.process_start import process_start
from stack.folder import StackFolder
from stack.ports import listening
from stack.prefect import authorization
from stack.report import StackReport, last_report, running_report
from tests.command import Mosaic, children_of, until
from tests.pipeline.desk import ask, write_bundle

pytestmark = [pytest.mark.prefect, pytest.mark.engine]

PARTS = ["postgres", "s3", "worker", "prefect", "flows"]
GOOD = ask("good", {"image": "circle.png"})
BAD = ask("bad", {"image": "absent.png"})


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home that PostgreSQL's user can enter also where we are root, as pytest's own folders do not let it."""
    folder = Path(tempfile.mkdtemp(prefix="mosaic-stack-"))
    try:
        yield folder
    finally:
        Mosaic(folder)("down")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def stack(home: Path) -> tuple[Mosaic, Any]:
    """The command line of a stack that was brought up, and what `up` told of it."""
    mosaic = Mosaic(home)
    up = mosaic("up", "--storage", "stack", "--json")
    assert up.code == 0, up.err
    return mosaic, up.object


@pytest.fixture
def mosaic(stack: tuple[Mosaic, Any]) -> Mosaic:
    """Its command line."""
    return stack[0]


def _report(mosaic: Mosaic) -> StackReport:
    report = running_report(StackFolder(mosaic.home))
    assert report is not None
    return report


def _digests(run: Any) -> dict[str, tuple[str, str, str]]:
    return {each["id"]: (each["outcome"], each["question_digest"], each["request_digest"]) for each in run["questions"]}


def test_up(stack: tuple[Mosaic, Any]) -> None:
    """Every part is ready, its secrets and its settings are for this user alone, and Prefect's server asks for them:
    it listens on loopback, and its pages are told where its API is."""
    mosaic, told = stack
    assert [(part["name"], part["state"], part["ready"]) for part in told["parts"]] == [
        (name, "ready", True) for name in PARTS
    ]
    assert (told["already"], told["storage"]) == (False, "stack")
    private = [*(mosaic.home / "stack" / "secrets").iterdir(), mosaic.home / "stack" / "storage.toml"]
    assert len(private) == 5
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    auth = authorization(Path(told["auth_file"]).read_text())
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"{told['api']}/admin/version").status_code == httpx.codes.UNAUTHORIZED
        assert client.get(f"{told['api']}/admin/version", headers=auth).status_code == httpx.codes.OK
        settings = client.get(f"{told['api']}/admin/settings", headers=auth).json()
        assert client.get(f"{told['ui']}/ui-settings").json()["api_url"] == told["api"]
    assert settings["server"]["analytics_enabled"] is False
    assert settings["results"]["default_serializer"] == "json"


def test_deployed(stack: tuple[Mosaic, Any]) -> None:
    """prefect.yaml is registered with its queues and schedules, and so is the automation that ends zombies; to deploy
    again makes nothing twice."""
    mosaic, told = stack
    auth = authorization(Path(told["auth_file"]).read_text())
    with httpx.Client(trust_env=False, headers=auth) as client:
        before = client.post(f"{told['api']}/automations/filter", json={}).json()
    again = mosaic("deploy", "--json")
    assert again.code == 0, again.err
    names = {each["deployment"]: each["queue"] for each in again.object["deployments"]}
    assert names["analyze-bundle"] == "interactive"
    assert names["nightly-bundle"] == "batch"
    with httpx.Client(trust_env=False, headers=auth) as client:
        automations = client.post(f"{told['api']}/automations/filter", json={}).json()
        deployments = client.post(f"{told['api']}/deployments/filter", json={}).json()
        queues = client.post(f"{told['api']}/work_pools/mosaic/queues/filter", json={}).json()
    assert [each["name"] for each in automations] == [again.object["automation"]]
    assert automations == before  # changed, it would forget whose heartbeats it waits for
    assert sorted(each["name"] for each in deployments) == sorted(names)
    assert {each["version"] for each in deployments} == {VERSION}
    schedules = {each["name"]: each["schedules"] for each in deployments}
    assert [(each["slug"], each["active"]) for each in schedules["nightly-bundle"]] == [("nightly", False)]
    priorities = {queue["name"]: queue["priority"] for queue in queues}
    assert priorities["interactive"] < priorities["batch"]


def test_second_up(mosaic: Mosaic) -> None:
    """It says that the stack is up, starts nothing again, and registers nothing again."""
    before = _report(mosaic)
    again = mosaic("up", "--json")
    assert (again.code, again.object["already"]) == (0, True), again.err
    assert _report(mosaic).processes() == before.processes()
    assert "registering" not in again.err


def test_storage_stays(mosaic: Mosaic) -> None:
    """What the home keeps in the stack is not put out of sight by another choice."""
    refused = mosaic("up", "--storage", "home")
    assert refused.code == 2
    assert "stack-storage" in refused.err


def test_run_remote(mosaic: Mosaic, tmp_path: Path) -> None:
    """A bundle submitted to the stack has the outcomes, digests and table of one that is run here; a bad question is
    an outcome; receipts of both verify; and `status` has both runs from the ledger."""
    path = write_bundle(tmp_path, GOOD, BAD)
    remote = mosaic("run", path, "--remote", "--json")
    assert remote.code == 1, remote.err
    direct = mosaic("run", path, "--direct", "--again", "--json")
    assert _digests(remote.object) == _digests(direct.object)
    assert remote.object.keys() == direct.object.keys()
    assert {each["id"]: each["outcome"] for each in remote.object["questions"]} == {
        "good": "complete",
        "bad": "source_failed",
    }
    assert Path(remote.object["report"]).is_file()
    assert mosaic("receipts", "verify", "--all").code == 0
    status = mosaic("status", "--json")
    assert status.code == 0, status.err
    assert [each["run"] for each in status.object["runs"]] == [direct.object["run"], remote.object["run"]]
    assert {(each["state"], each["done"], each["questions"]) for each in status.object["runs"]} == {("finished", 2, 2)}


def test_a_configured_server(stack: tuple[Mosaic, Any], tmp_path: Path) -> None:
    """A run of this process shows itself on a server that is configured, if the authentication string is right; where
    it is wrong, that is said before anything is started."""
    mosaic, told = stack
    path = write_bundle(tmp_path, GOOD)
    configured = {"PREFECT_API_URL": told["api"]}
    right = replace(mosaic, variables=configured | {"PREFECT_API_AUTH_STRING": Path(told["auth_file"]).read_text()})
    assert right("run", path, "--json").code == 0
    for options in (["--remote"], []):
        wrong = replace(mosaic, variables=configured | {"PREFECT_API_AUTH_STRING": "mosaic:wrong"})
        refused = wrong("run", path, *options)
        assert (refused.code, refused.err.count("authentication string"), "Traceback" in refused.err) == (3, 1, False)
    assert right("up").code == 2


def test_refused_before_it_is_submitted(mosaic: Mosaic, tmp_path: Path) -> None:
    """A bundle that is wrong, and settings that are the worker's, are refused here."""
    path = write_bundle(tmp_path, GOOD)
    assert mosaic("run", path, "--remote", "--direct").code == 2
    assert "remote-set" in mosaic("run", path, "--remote", "--set", "policy=allowlist").err
    path.write_text(path.read_text() + "\nunknown: 1\n")
    refused = mosaic("run", path, "--remote")
    assert (refused.code, "submitted" in refused.err) == (2, False)


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(["postgres", "worker"], id="postgres-and-worker"),
        pytest.param(["s3", "flows"], id="s3-and-flows"),
        pytest.param(["prefect"], id="prefect"),
    ],
)
def test_mended(mosaic: Mosaic, victims: list[str]) -> None:
    """After kill -9 of a part, `up` gives a stack in which every part works, and those that lived were left alone."""
    before = _report(mosaic).processes()
    for name in victims:
        os.kill(before[name].pid, signal.SIGKILL)
    mended = mosaic("up", "--json")
    assert (mended.code, mended.object["already"]) == (0, True), mended.err
    assert all(part["ready"] for part in mended.object["parts"])
    after = _report(mosaic).processes()
    assert {name for name in before if before[name] != after[name]} == set(victims)
    assert not any(before[name].is_alive for name in victims)


def _many(folder: Path) -> Path:
    """A bundle that is in work for longer than any test waits."""
    return write_bundle(folder, *(ask(f"q{n}", {"image": "circle.png"}, max_output_tokens=n + 2) for n in range(900)))


def _in_work(mosaic: Mosaic) -> Any:
    """The latest run, if some of its questions have been answered and others not."""
    runs = mosaic("status", "--json").object["runs"]
    return next((run for run in runs[:1] if run["state"] == "running" and 0 < run["done"] < run["questions"]), None)


def test_down(mosaic: Mosaic, tmp_path: Path) -> None:
    """A flow that is in work closes its run; then everything is stopped, shown by processes and ports, and the data
    stay; a second `down` has nothing to do."""
    before = _report(mosaic)
    process = mosaic.start("run", _many(tmp_path), "--remote")
    try:
        until(lambda: _in_work(mosaic), "a run in work")
        down = mosaic("down", "--json")
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (down.code, down.object["was_up"], down.object["left"]) == (0, True, []), down.err
    assert process.returncode in (1, 3), (out, err)  # whether it saw the end depends on who was faster
    assert _left(mosaic.home, before) == []
    assert (mosaic.home / "stack" / "postgres" / "data").is_dir()
    status = mosaic("status", "--json")
    assert (status.code, status.object["state"]) == (3, "down")
    assert status.object["ledger"] != "ready"
    again = mosaic("down", "--json")
    assert (again.code, again.object["was_up"], again.object["left"]) == (0, False, [])


def test_up_again(stack: tuple[Mosaic, Any]) -> None:
    """The stack has what it held, at the same addresses: the run that was stopped has ended, with a result for every
    question, and all receipts verify."""
    mosaic, told = stack
    up = mosaic("up", "--json")
    assert (up.code, up.object["already"]) == (0, False), up.err
    assert {part["name"]: part["url"] for part in up.object["parts"]} == {
        part["name"]: part["url"] for part in told["parts"]
    }
    stopped = mosaic("status", "--json").object["runs"][0]
    assert (stopped["state"], stopped["done"]) == ("finished", stopped["questions"])
    results = mosaic("results", stopped["run"], "--format", "jsonl").objects
    assert {(each["outcome"], each["rule"]) for each in results} == {("complete", None), ("canceled", "canceled")}
    assert mosaic("receipts", "verify", "--all").code == 0


def test_supervisor_killed(mosaic: Mosaic, tmp_path: Path) -> None:
    """kill -9 of the supervisor takes everything with it, in whatever session it is, also a flow that is in work."""
    before = _report(mosaic)
    process = mosaic.start("run", _many(tmp_path), "--remote", "--again")
    try:
        until(lambda: _in_work(mosaic), "a run in work")
        flows = before.processes()["flows"].pid
        in_work = children_of_process(flows)
        os.kill(before.supervisor.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3
    assert in_work
    until(lambda: not _left(mosaic.home, before), "nothing left")
    assert not any(map(process_start, in_work))
    down = mosaic("down", "--json")
    assert (down.code, down.object["was_up"], down.object["left"]) == (0, False, [])


def test_guardian_killed(home: Path, tmp_path: Path) -> None:
    """kill -9 of the guardian while the stack starts stops everything in order; `up` says so."""
    mosaic = Mosaic(home)
    process = mosaic.start("up")
    report = until(lambda: running_report(StackFolder(home)), "a supervisor")
    os.kill(report.guardian.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 3, err
    assert _left(home, last_report(StackFolder(home)) or report) == []


def test_half_started(home: Path) -> None:
    """A part that cannot start takes everything down again; the reason and the log's path are told."""
    version = home / "stack" / "postgres" / "data" / "PG_VERSION"
    version.write_text("9.6\n")
    try:
        failed = Mosaic(home)("up")
    finally:
        version.write_text("18\n")
    assert failed.code == 3
    assert "postgres: it ended with code 1 while it started" in failed.err
    assert str(home / "logs" / "stack-postgres.log") in failed.err
    report = last_report(StackFolder(home))
    assert report is not None
    assert _left(home, report) == []


def test_a_port_that_is_taken(home: Path) -> None:
    """A configured port that another program has is refused by its setting's name, before anything is started."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = Mosaic(home, {"MOSAIC_PORTS__PREFECT": port})("up")
    assert failed.code == 3
    assert "ports.prefect" in failed.err


def _left(home: Path, report: StackReport) -> list[object]:
    """What is left of a stack: processes it named, processes that name its home, ports that answer."""
    alive = [name for name, each in report.processes().items() if process_start(each.pid) == each.start != 0]
    return [*alive, *children_of(0, home).values(), *listening(report.ports)]
