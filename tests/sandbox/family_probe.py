"""A program for the tests: starts a child, says its process ids and first words, and waits to be killed.

`KIND [all|view [WITHHELD…]]`: with a view the child is started in namespaces; the kernel refuses us the WITHHELD calls.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from sandbox import seccomp
from sandbox.confine import RESOLVER_FILES
from sandbox.linux import PR_SET_NO_NEW_PRIVS, prctl
from sandbox.namespaces import View
from sandbox.seccomp import ALLOW, Rule
from sandbox.spawn import MINIMAL_ENVIRONMENT, Child, spawn, spawn_program


def _withhold(names: list[str]) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install([Rule(name, seccomp.refuse(1)) for name in names], otherwise=ALLOW)


def _spawn(kind: str, seen: str) -> tuple[Child, socket.socket, dict[str, object]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    view = View(readable=RESOLVER_FILES) if seen == "view" else None
    child = spawn("tests.sandbox.confined_probe", channel=theirs, arguments=[kind], stderr=2, view=view)
    return child, ours, json.loads(ours.recv(4096))


def main() -> None:
    kind, seen, *withheld = (*sys.argv[1:], "all") if len(sys.argv) == 2 else sys.argv[1:]
    if withheld:
        _withhold(withheld)
    hello: dict[str, object] = {"uid": os.getuid()}
    if kind == "program":
        child = spawn_program(["/bin/sleep", "600"], environment=MINIMAL_ENVIRONMENT)
    else:
        child, _channel, hello = _spawn(kind, seen)
    print(json.dumps({**hello, "pids": sorted({child.pid, child.worker_pid})}), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
