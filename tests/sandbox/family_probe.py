"""A program for the tests: starts a child, says its process id, and waits to be killed."""

from __future__ import annotations

import socket
import sys
import time

from sandbox.spawn import MINIMAL_ENVIRONMENT, spawn, spawn_program


def main() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if sys.argv[1] == "program":
        child = spawn_program(["/bin/sleep", "600"], environment=MINIMAL_ENVIRONMENT)
    else:
        child = spawn("tests.sandbox.confined_probe", channel=theirs, arguments=[sys.argv[1]])
        assert ours.recv(4096)
    print(child.pid, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
