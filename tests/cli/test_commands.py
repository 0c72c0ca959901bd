"""The offline commands: their JSON, their exit codes, and that they stay light."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import REPOSITORY, Mosaic, children_of, stop, until
from tests.media_samples import encode, mp4, picture, sound, webm

VECTORS = REPOSITORY / "tests" / "vectors"
WIRE = VECTORS / "wire"
_OUTCOMES = json.loads((WIRE / "OUTCOMES.json").read_text())


def test_stream_check(mosaic: Mosaic) -> None:
    """Every recorded stream has the outcome that is written beside it, one object each in the order given."""
    files = [WIRE / f"{name}.sse" for name in _OUTCOMES]
    ended = mosaic("stream", "check", *files, "--json")
    assert ended.code == 1
    assert {Path(row["file"]).stem: row["outcome"] for row in ended.objects} == _OUTCOMES
    assert [row["file"] for row in ended.objects] == [str(file) for file in files]
    keys = {"file", "outcome", "rule", "reason", "text", "usage", "events", "stream_digest"}
    assert all(row.keys() >= keys for row in ended.objects)
    assert all((row["rule"] is None) == (row["outcome"] == "complete") for row in ended.objects)


def test_stream_check_exit_codes(mosaic: Mosaic) -> None:
    """Complete streams alone are 0; another route or a smaller budget is 1; what does not exist is 2."""
    good = WIRE / "success_text_keepalive.sse"
    assert mosaic("stream", "check", good).code == 0
    other = mosaic("stream", "check", good, "--route", "another", "--json")
    assert (other.code, other.object["outcome"]) == (1, "protocol_violation")
    assert mosaic("stream", "check", WIRE / "absent.sse").code == 2
    assert mosaic("stream", "check", good, "--profile", "0.0.1").code == 2
    assert mosaic("stream", "check", good, "--max-tokens", "0").code == 2


def test_stream_events(mosaic: Mosaic, tmp_path: Path) -> None:
    """The decoder's own view: names and data of every event; bytes that are no event stream are an error."""
    path = tmp_path / "s.sse"
    path.write_bytes(b": hello\n\ndata: a\ndata: b\n\nevent: end\ndata: \x1b[2J\n\n")
    ended = mosaic("stream", "events", path, "--json")
    assert (ended.code, ended.object) == (
        0,
        {"file": str(path), "events": [["message", "a\nb"], ["end", "\x1b[2J"]], "error": None},
    )
    assert "\x1b" not in mosaic("stream", "events", path).out
    path.write_bytes(b"data: \xff\xfe\n\n")
    broken = mosaic("stream", "events", path, "--json")
    assert broken.code == (1 if broken.object["error"] else 0)


@pytest.mark.parametrize("command", [("stream", "check", str(WIRE / "success_text_keepalive.sse")), ("settings",)])
def test_light(mosaic: Mosaic, command: tuple[str, ...]) -> None:
    """A command that needs neither Prefect nor the engine, the ledger or HTTP imports none of them."""
    program = (
        "import sys; sys.argv = ['mosaic', *sys.argv[1:]]\nfrom cli.app import main\n"
        "try: main()\nexcept SystemExit: pass\nsys.stderr.write(chr(10).join(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, *command],
        env=mosaic.environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    heavy = {"prefect", "mistralrs", "sqlalchemy", "httpx", "av", "numpy", "PIL", "boto3", "starlette"}
    assert "contracts" in loaded
    assert loaded & heavy == set()


def test_policy_vectors(mosaic: Mosaic) -> None:
    """Every collected URL is judged as its line expects, by the rule that it names and with a reason."""
    cases = [json.loads(line) for line in (VECTORS / "ssrf.jsonl").read_text("utf-8").splitlines()]
    ended = mosaic("policy", "check", "--cases", VECTORS / "ssrf.jsonl", "--json")
    assert ended.code == 1
    judged = [(row["url"], row["verdict"], row["rule"]) for row in ended.objects]
    assert judged == [(case["url"], case["expect"], case.get("rule", "public-web")) for case in cases]
    assert all(row["rule"] and row["reason"] for row in ended.objects)


def test_policy_exit_codes(mosaic: Mosaic, tmp_path: Path) -> None:
    """Allowed alone is 0, one denied is 1, nothing to judge, an unknown policy or a bad case file is 2."""
    good = ("policy", "check", "https://example.com/a.png", "--resolve", "example.com=93.184.216.34", "--json")
    assert mosaic(*good).code == 0
    denied = mosaic(*good, "--resolve", "example.com=127.0.0.1")
    assert (denied.code, denied.object["verdict"]) == (1, "deny")
    assert mosaic("policy", "check", "https://example.com/", "--json").object["verdict"] == "deny"
    bad = tmp_path / "bad.jsonl"
    for data in (b"[]\n", b"{\n", b"\xff\xfe\n"):
        bad.write_bytes(data)
        ended = mosaic("policy", "check", "--cases", bad)
        assert (ended.code, ended.out, "Traceback" in ended.err) == (2, "", False)
    for arguments in (
        (),
        ("--cases", tmp_path / "absent"),
        ("http://a/", "--policy", "none"),
        ("http://a/", "--resolve", "a"),
    ):
        ended = mosaic("policy", "check", *arguments)
        assert (ended.code, "Traceback" in ended.err) == (2, False), ended.err


def test_inspect(mosaic: Mosaic, tmp_path: Path) -> None:
    """Files are accepted with what was found and the isolation in force, or rejected by a rule; one bad is exit 1."""
    files = {"a.png": encode(picture(), "PNG"), "b.wav": sound("wav"), "c.mp4": mp4(), "d.png": b"<html>", "e.png": b""}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    ended = mosaic("inspect", *(tmp_path / name for name in files), "--json")
    assert ended.code == 1
    assert [row["verdict"] for row in ended.objects] == ["accept"] * 3 + ["reject"] * 2
    for row in ended.objects:
        assert row.keys() >= {"file", "verdict", "rule", "reason", "findings", "layers", "ms"}
        assert bool(row["rule"]) == (row["verdict"] == "reject")
        assert bool(row["layers"]) == (row["verdict"] == "accept")
    assert mosaic("inspect", tmp_path / "a.png").code == 0
    guessed = {"g.ogg": sound("opus"), "h.webm": webm(), "i.gif": encode(picture(), "GIF")}
    for name, data in guessed.items():
        (tmp_path / name).write_bytes(data)
    assert mosaic("inspect", *(tmp_path / name for name in guessed)).code == 0
    wrong = mosaic("inspect", tmp_path / "a.png", "--as", "audio", "--json")
    assert (wrong.code, wrong.object["verdict"]) == (1, "reject")
    assert mosaic("inspect", tmp_path / "absent").code == 2


def test_settings(mosaic: Mosaic) -> None:
    """Every setting is shown with its value and where it comes from; one that does not exist stops the program."""
    rows = {row["name"]: row for row in mosaic("settings", "--json").objects}
    assert (rows["home"]["value"], rows["home"]["source"]) == (str(mosaic.home), "MOSAIC_HOME")
    assert rows["limits.image_bytes"]["source"] == "default"
    wrong = Mosaic(mosaic.home, {"MOSAIC_TENNANT": "x"})("settings", "--json")
    assert (wrong.code, wrong.out) == (2, "")
    assert "tenant" in wrong.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "absent.yaml"),
        ("run", "pyproject.toml", "--direct"),
        ("run", "examples/first/bundle.yaml", "--set", "limits.image_bytes"),
        ("run", "examples/first/bundle.yaml", "--set", "limits.images=3"),
        ("nonsense",),
        ("test",),
    ],
)
def test_bad_usage(mosaic: Mosaic, arguments: tuple[str, ...]) -> None:
    """A wrong command, option or bundle is exit 2 with a reason on stderr and nothing on stdout."""
    ended = mosaic(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err
    assert "Traceback" not in ended.err


def test_worker_that_is_not_there(mosaic: Mosaic) -> None:
    """A run whose configured worker does not answer is exit 3 and says which gate; so is status of it."""
    away = Mosaic(mosaic.home, {"MOSAIC_WORKER_URL": "http://127.0.0.1:9"})
    ended = away("run", "examples/first/bundle.yaml", "--direct", "--json")
    assert (ended.code, ended.out) == (3, "")
    assert "gate tcp" in ended.err
    status = mosaic("worker", "status", "http://127.0.0.1:9", "--json")
    assert status.code == 3
    assert [row["verdict"] for row in status.objects] == ["fail", "skip", "skip", "skip"]


@pytest.mark.engine
def test_worker(mosaic: Mosaic) -> None:
    """The embedded worker says where it serves, passes every gate with a right answer, and ends at SIGTERM with 0
    and no child."""
    process = mosaic.start("worker", "embedded")
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    status = mosaic("worker", "status", said["url"], "--staging", mosaic.home / "staging", "--json")
    assert (status.code, [row["verdict"] for row in status.objects]) == (0, ["pass"] * 4)
    assert [row["gate"] for row in status.objects] == ["tcp", "health", "models", "semantic"]
    assert children_of(process.pid, mosaic.home)
    ended = stop(process, signal.SIGTERM)
    assert (ended.code, "Traceback" in ended.err) == (0, False)
    until(lambda: not children_of(process.pid, mosaic.home), "the worker's child dead")
