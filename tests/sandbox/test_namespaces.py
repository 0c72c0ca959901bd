"""The namespaces around a child, on their own and with the confinement."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.confine import RESOLVER_FILES
from sandbox.namespaces import View
from sandbox.spawn import Child, spawn
from tests.sandbox.unprivileged import USER, unprivileged

ROOT = Path(__file__).resolve().parents[2]
VIEW = View(readable=RESOLVER_FILES)
FAMILY = [sys.executable, "-m", "tests.sandbox.family_probe"]


@dataclass
class Probe:
    """The child and the test's end of its channel."""

    child: Child
    channel: socket.socket
    layers: list[str]

    def attempt(self, name: str) -> str:
        """What the child says about attempt `name`; empty if it died."""
        self.channel.sendall(name.encode())
        return self.channel.recv(256).decode()


@contextmanager
def inside(confinement: str, view: View) -> Iterator[Probe]:
    """A child in namespaces of its own, killed at the end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = spawn("tests.sandbox.confined_probe", channel=theirs, arguments=[confinement], view=view)
    try:
        ours.settimeout(20)
        hello = ours.recv(4096)
        assert hello, "the child died"
        if child.worker_pid == child.pid:
            pytest.skip("this machine makes no namespaces")
        yield Probe(child, ours, json.loads(hello)["layers"])
    finally:
        child.kill()
        ours.close()


@contextmanager
def family(*words: str, wrapper: list[str] | None = None) -> Iterator[dict[str, object]]:
    """What a parent that started a child says of it; both end with the test."""
    command = [*(wrapper or []), *FAMILY, *words]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert parent.stdout is not None
        with parent.stdout:
            yield json.loads(parent.stdout.readline())
    finally:
        parent.kill()
        parent.wait()


def test_the_view_is_all_that_there_is(tmp_path: Path) -> None:
    """Without any other layer: no file of the host, no process of the host, nothing to write, nothing to run."""
    (tmp_path / "shown").write_text("x")
    (tmp_path / "hidden").write_text("x")
    with inside("none", View(readable=(*RESOLVER_FILES, str(tmp_path / "shown"), str(tmp_path / "missing")))) as probe:
        assert probe.attempt("open_passwd") == "ENOENT"
        assert probe.attempt("processes") == "ok 1"
        assert probe.attempt("write_file") in {"ENOENT", "EROFS"}
        assert probe.attempt("write_into_root") in {"EROFS", "EACCES"}
        assert probe.attempt("write_into_package") in {"EROFS", "EACCES"}
        assert probe.attempt("host_name") == "ok confined"
        assert not {"bin", "sbin", "dev", "sys", "run", "boot"} & set(probe.attempt("names_in_root").split())
        root = Path(f"/proc/{probe.child.worker_pid}/root")
        seen = sorted(path.name for path in (root / tmp_path.relative_to("/")).iterdir())
        assert seen == ["shown"]
        repository = sorted(path.name for path in (root / ROOT.relative_to("/")).iterdir())
        assert {"contracts", "sandbox", "tests"} <= set(repository)
        assert not {"settings", "storage", ".mosaic", ".git", "mosaic"} & set(repository)
        assert probe.attempt("exec") == "ENOENT"


def test_no_capability_is_left_in_the_confined_child() -> None:
    """Root's are gone with its user, the ones over the new namespaces with their making."""
    with inside("fetcher", VIEW) as probe:
        status = Path(f"/proc/{probe.child.worker_pid}/status").read_text()
        sets = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Cap")}
        assert {int(sets[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert "namespaces" in probe.layers


def test_a_confined_child_computes_and_resolves_inside() -> None:
    """Threads, memory and names work as without the view."""
    with inside("fetcher", VIEW) as probe:
        assert probe.attempt("thread") == "ok done"
        assert probe.attempt("allocate_2_gib") == "MemoryError"
        assert probe.attempt("resolve_localhost") in {"ok 127.0.0.1", "ok ::1"}
        assert probe.attempt("tcp_socket") == "ok None"


@pytest.mark.parametrize("name", ["exec", "ptrace"])
def test_the_end_of_the_inside_is_seen_outside_as_it_was(name: str) -> None:
    """A signal that ended the child inside is the return code of the process that waits outside."""
    with inside("fetcher", VIEW) as probe:
        assert probe.attempt(name) == ""
        assert probe.child.kill() == -31


def test_neither_side_holds_a_descriptor_too_many() -> None:
    """Inside there is the channel beside the standard ones, outside that and the pipe that says it lives."""
    with inside("none", VIEW) as probe:
        outside = {path.name for path in Path(f"/proc/{probe.child.pid}/fd").iterdir()}
        within = {path.name for path in Path(f"/proc/{probe.child.worker_pid}/fd").iterdir()}
        assert {"0", "1", "2"} < within
        assert len(within) == 4
        assert len(outside) == 5


@pytest.mark.parametrize("withheld", ["unshare", "mount", "pivot_root", "mount_setattr"])
def test_where_namespaces_are_refused_the_child_starts_without(withheld: str) -> None:
    """Whatever step the kernel refuses: the other layers are in force, and none is named that is not."""
    with family("fetcher", "view", withheld) as said:
        layers = said["layers"]
        assert isinstance(layers, list)
        assert "namespaces" not in layers
        assert "seccomp" in layers
        assert said["pid"] != 1


def test_an_unprivileged_user_has_namespaces_too(tmp_path: Path) -> None:
    """Started by no root: the user stays, the layer is made in a user namespace, where the machine allows one."""
    with family("fetcher", "view", wrapper=unprivileged(tmp_path)) as said:
        assert said["uid"] == USER
        layers = said["layers"]
        assert isinstance(layers, list)
        if "namespaces" not in layers:
            pytest.skip("this machine has no unprivileged user namespaces")
        assert layers[:3] == ["no_new_privs", "rlimits", "namespaces"]
        assert "seccomp" in layers


def test_no_moment_of_the_start_lets_a_child_outlive_its_parent() -> None:
    """The parent is killed at 25 moments of the child's start: no process that was started for it is left, ever."""
    moment = random.Random(4)
    started = 0
    for _ in range(25):
        parent = subprocess.Popen(
            [*FAMILY, "fetcher", "view"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with pytest.raises(subprocess.TimeoutExpired):
            parent.wait(moment.uniform(0.05, 0.4))
        started += len(_started_by(parent.pid))
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 10
        while left := _started_by(parent.pid):
            assert time.monotonic() < deadline, f"processes {left} outlived their parent"
            os.sched_yield()
    assert started, "the parents were all killed before they started anything"


def _started_by(parent: int) -> list[int]:
    """The processes whose command line names `parent` as the one to die with."""
    found = list[int]()
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and f"child_main.py\0{parent}\0" in (process / "cmdline").read_text():
                found.append(int(process.name))
    return found
