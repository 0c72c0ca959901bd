"""A child for the tests: confines itself as told, then tries what it is asked for and says how it went."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from contracts.errors import NeedMissing
from sandbox import seccomp, syscall_table
from sandbox.confine import confine, decoder, fetcher
from sandbox.linux import PR_SET_NO_NEW_PRIVS, prctl
from sandbox.seccomp import Rule

MIB = 1 << 20


def _thread() -> str:
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    thread.start()
    thread.join()
    return "done" if done.is_set() else "not done"


def _listen() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()


def _ptrace() -> None:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)


def _resolve() -> str:
    return str(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[0][4][0])


def _raise_cpu_limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (10_000, 10_000))


_FORK = os.fork
ATTEMPTS: dict[str, Callable[[], object]] = {
    "open_passwd": lambda: Path("/etc/passwd").read_bytes(),
    "open_environ": lambda: Path("/proc/self/environ").read_bytes(),
    "write_file": lambda: Path("/tmp/confined-probe").write_bytes(b"x"),
    "list_root": lambda: list(Path("/").iterdir()),
    "names_in_root": lambda: " ".join(sorted(path.name for path in Path("/").iterdir())),
    "processes": lambda: " ".join(path.name for path in Path("/proc").iterdir() if path.name.isdecimal()),
    "capabilities": lambda: next(
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
    ),
    "write_into_root": lambda: Path("/confined-probe").write_bytes(b"x"),
    "write_into_package": lambda: Path(seccomp.__file__).with_name("x").write_bytes(b"x"),
    "host_name": socket.gethostname,
    "tcp_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "unix_socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
    "raw_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "netlink_socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM).close(),
    "listen": _listen,
    "fork": lambda: os.waitpid(child, 0) if (child := _FORK()) else os._exit(0),
    "kill_parent": lambda: os.kill(os.getppid(), 0),
    "chmod": lambda: os.fchmod(0, 0o777),
    "become_root": lambda: os.setuid(0),
    "thread": _thread,
    "allocate_2_gib": lambda: len(bytearray(2 << 30)),
    "allocate_8_mib": lambda: len(bytearray(8 * MIB)),
    "resolve_localhost": _resolve,
    "raise_cpu_limit": _raise_cpu_limit,
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "ptrace": _ptrace,
}

CONFINEMENTS = {
    "decoder": lambda: decoder(256 * MIB, cpu_s=20),
    "fetcher": lambda: fetcher(256 * MIB, file_bytes=MIB),
}


def _try(attempt: Callable[[], object]) -> str:
    try:
        return f"ok {attempt()}"[:80]
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except (MemoryError, ValueError) as error:
        return type(error).__name__


def _withhold(names: list[str]) -> None:
    """Make this process one whose kernel refuses `names` (and what our table does not know)."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install([Rule(name) for name in syscall_table.names() if name not in names])


def main(channel: socket.socket, arguments: list[str]) -> None:
    """`CONFINEMENT|none` and the system calls to withhold, then one attempt per message; ends with the channel."""
    socket.getaddrinfo("localhost", 80)
    kind, *withheld = arguments
    if withheld:
        _withhold(withheld)
    try:
        layers = confine(CONFINEMENTS[kind]()) if kind != "none" else ()
    except NeedMissing as error:
        channel.sendall(json.dumps({"rule": error.rule}).encode())
        return
    channel.sendall(json.dumps({"pid": os.getpid(), "uid": os.getuid(), "layers": layers}).encode())
    while name := channel.recv(64).decode():
        channel.sendall(_try(ATTEMPTS[name]).encode())
