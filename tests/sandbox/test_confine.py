"""The confinement, tried from inside a real child."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import pytest

from sandbox import landlock
from sandbox.spawn import Child, spawn

REFUSED = {"EPERM", "EACCES", "PermissionError"}


@dataclass
class Probe:
    """The child and the test's end of its channel."""

    child: Child
    channel: socket.socket
    hello: dict[str, object]

    def attempt(self, name: str) -> str:
        """What the child says about attempt `name`; empty if it died."""
        self.channel.sendall(name.encode())
        return self.channel.recv(256).decode()


@contextmanager
def probing(confinement: str, *withheld: str) -> Iterator[Probe]:
    """A child that confined itself as told, killed at the end; its kernel refuses the `withheld` system calls."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = spawn("tests.sandbox.confined_probe", channel=theirs, arguments=[confinement, *withheld])
    try:
        ours.settimeout(20)
        hello = ours.recv(4096)
        assert hello, "the child died before it was confined"
        yield Probe(child, ours, json.loads(hello))
    finally:
        child.kill()
        ours.close()


@pytest.fixture(scope="module")
def decoder() -> Iterator[Probe]:
    with probing("decoder") as probe:
        yield probe


@pytest.fixture(scope="module")
def fetcher() -> Iterator[Probe]:
    with probing("fetcher") as probe:
        yield probe


@pytest.mark.parametrize(
    "name",
    [
        *("open_passwd", "open_environ", "write_file", "list_root", "tcp_socket", "unix_socket", "raw_socket"),
        *("netlink_socket", "listen", "fork", "kill_parent", "chmod", "become_root"),
    ],
)
def test_decoder_is_refused(decoder: Probe, name: str) -> None:
    """A decoder may open, connect to, start or signal nothing."""
    assert decoder.attempt(name) in REFUSED


@pytest.mark.parametrize(
    "name",
    [
        *("open_passwd", "open_environ", "write_file", "list_root", "unix_socket", "raw_socket", "netlink_socket"),
        *("listen", "fork", "kill_parent", "chmod", "become_root"),
    ],
)
def test_fetcher_is_refused(fetcher: Probe, name: str) -> None:
    """A fetcher may connect over IP, and nothing else of the above."""
    assert fetcher.attempt(name) in REFUSED


def test_what_is_refused_works_without_the_confinement() -> None:
    """The attempts are real: unconfined, they succeed."""
    with probing("none") as probe:
        for name in ("open_passwd", "open_environ", "list_root", "tcp_socket", "listen", "fork", "kill_parent"):
            assert probe.attempt(name).startswith("ok"), name


def test_decoder_computes(decoder: Probe) -> None:
    """Threads run, modest memory can be had, too much is a MemoryError and not a death."""
    assert decoder.attempt("thread") == "ok done"
    assert decoder.attempt("allocate_8_mib") == "ok 8388608"
    assert decoder.attempt("allocate_2_gib") == "MemoryError"
    assert decoder.attempt("thread") == "ok done"


def test_decoder_cannot_raise_its_hard_limit(decoder: Probe) -> None:
    """The hard CPU limit stays where it was put."""
    assert decoder.attempt("raise_cpu_limit") in {"ValueError", *REFUSED}


def test_fetcher_resolves_and_connects(fetcher: Probe) -> None:
    """Names resolve and IP sockets can be made inside the confinement."""
    assert fetcher.attempt("resolve_localhost") in {"ok 127.0.0.1", "ok ::1"}
    assert fetcher.attempt("tcp_socket") == "ok None"
    assert fetcher.attempt("thread") == "ok done"


@pytest.mark.parametrize("confinement", ["decoder", "fetcher"])
@pytest.mark.parametrize("name", ["exec", "ptrace"])
def test_exec_and_ptrace_kill(confinement: str, name: str) -> None:
    """An attempt to run a program or to trace one ends the child at once."""
    with probing(confinement) as probe:
        assert probe.attempt(name) == ""
        assert probe.child.kill() == -signal.SIGSYS


def test_layers_are_named(decoder: Probe) -> None:
    """Every layer in force has a name, Landlock with its ABI; as root the user is dropped."""
    layers = decoder.hello["layers"]
    assert isinstance(layers, list)
    named = " ".join(layers)
    assert re.fullmatch(r"no_new_privs rlimits( uid-65534)?( landlock-\d+)?( seccomp)?", named)
    assert "landlock" in named or "seccomp" in named
    if os.getuid() == 0:
        assert "uid-65534" in named
        assert decoder.hello["uid"] == 65534


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
def test_one_strong_layer_is_enough_and_is_named() -> None:
    """Where the kernel refuses Landlock, seccomp still holds, and the other way round; the layers say which."""
    with probing("decoder", "landlock_create_ruleset") as probe:
        assert probe.hello["layers"] == ["no_new_privs", "rlimits", "seccomp"]
        assert probe.attempt("tcp_socket") == "EPERM"
    with probing("decoder", "seccomp") as probe:
        assert any(layer.startswith("landlock-") for layer in cast("list[str]", probe.hello["layers"]))
        assert probe.attempt("open_passwd") == "EACCES"


def test_without_a_strong_layer_nothing_starts() -> None:
    """Neither Landlock nor seccomp: the child refuses to go on."""
    with probing("decoder", "landlock_create_ruleset", "seccomp") as probe:
        assert probe.hello == {"rule": "isolation-missing"}
