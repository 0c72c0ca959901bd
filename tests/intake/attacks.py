"""A child for the tests: confined as the fetcher or a decoder is, then an attacker. Each message names an attack and a
word (JSON), the answer is how it went: `done`, an errno's name, or nothing where it killed the child."""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from contracts.limits import Limits
from intake.children.fetch import prepare
from intake.decoder_wire import DERIVATIVE_BYTES_MAX
from intake.frames import Configure, Ready, read_memory_file, read_order
from sandbox.confine import confine, decoder
from tests.intake.attack_calls import CALLS

_LIBC = ctypes.CDLL(None, use_errno=True)
_FORK = os.fork


def _raw(name: str, *arguments: int | bytes | None) -> None:
    ctypes.set_errno(0)
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if _LIBC.syscall(ctypes.c_long(CALLS[name][platform.machine()]), *values) == -1:
        raise OSError(ctypes.get_errno(), name)


def _read(path: str) -> None:
    Path(path).read_bytes()


def _write(path: str) -> None:
    Path(path).write_bytes(b"x")


def _write_beneath(path: str) -> None:
    (Path(path) / "attacker-was-here").write_bytes(b"x")


def _listen(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(address)  # type: ignore[arg-type]
        listener.listen()


def _listen_unbound(_: str) -> None:
    with socket.socket() as listener:
        listener.listen()


def _bind_udp(_: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))


def _raise_limit(name: str) -> None:
    try:
        resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)
    except ValueError as error:
        raise PermissionError(errno.EPERM, name) from error


def _fork(_: str) -> None:
    child = _FORK()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _own(parent: str) -> None:
    with socket.socket() as one:
        fcntl.fcntl(one, fcntl.F_SETOWN, int(parent))


def _socket(family: int, kind: int, protocol: int = 0) -> Callable[[str], None]:
    return lambda _: socket.socket(family, kind, protocol).close()


ATTACKS: dict[str, Callable[[str], object]] = {
    "read": _read,
    "write": _write,
    "write beneath": _write_beneath,
    "list": lambda path: os.listdir(path),  # noqa: PTH208
    "remove": lambda path: os.unlink(path),  # noqa: PTH108
    "rename": lambda path: os.rename(path, path + "-renamed"),  # noqa: PTH104
    "make a folder beneath": lambda path: os.mkdir(path + "/attacker-was-here"),  # noqa: PTH102
    "make a link to": lambda path: os.symlink(path, path + "-link"),  # noqa: PTH211
    "change the mode of": lambda path: os.chmod(path, 0o777),  # noqa: PTH101
    "truncate": lambda path: os.truncate(path, 0),
    "exec": lambda path: os.execv(path, [path]),
    "fork": _fork,
    "vfork": lambda _: _raw("clone", 0x4100 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda _: _raw("clone3", bytes(88), 88),
    "ptrace": lambda pid: _raw("ptrace", 16, int(pid), 0, 0),
    "read memory of": lambda pid: _raw("process_vm_readv", int(pid), bytes(16), 1, bytes(16), 1, 0),
    "kill": lambda pid: os.kill(int(pid), signal.SIGKILL),
    "kill every process": lambda _: os.kill(-1, signal.SIGKILL),
    "kill a thread of": lambda pid: _raw("tgkill", int(pid), int(pid), signal.SIGKILL),
    "open a handle of": lambda pid: os.pidfd_open(int(pid)),
    "take signals for": _own,
    "change the limits of": lambda pid: _raw("prlimit64", int(pid), 7, bytes(16), None),
    "listen on TCP": lambda _: _listen(socket.AF_INET, ("127.0.0.1", 0)),
    "listen on TCP over IPv6": lambda _: _listen(socket.AF_INET6, ("::1", 0)),
    "listen without a bind": _listen_unbound,
    "bind UDP": _bind_udp,
    "make a UNIX socket": _socket(socket.AF_UNIX, socket.SOCK_STREAM),
    "make a UNIX socket pair": lambda _: socket.socketpair(),
    "make a netlink socket": _socket(socket.AF_NETLINK, socket.SOCK_DGRAM),
    "make a raw socket": _socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "make a raw socket over IPv6": _socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
    "make a packet socket": _socket(socket.AF_PACKET, socket.SOCK_RAW),
    "make a ping socket": _socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "make a multipath socket": _socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "make a VM socket": _socket(40, socket.SOCK_STREAM),
    "make a cipher socket": _socket(38, 5),
    "set up io_uring": lambda _: _raw("io_uring_setup", 8, bytes(120)),
    "read a keyring": lambda _: _raw("keyctl", 0, -3, 0, 0, 0),
    "add a key": lambda _: _raw("add_key", b"user", b"x", b"x", 1, -3),
    "load a BPF program": lambda _: _raw("bpf", 0, bytes(128), 128),
    "count events": lambda _: _raw("perf_event_open", bytes(128), 0, -1, -1, 0),
    "handle page faults": lambda _: _raw("userfaultfd", 1),
    "unshare users": lambda _: _raw("unshare", 0x10000000),
    "unshare mounts": lambda _: _raw("unshare", 0x00020000),
    "mount": lambda _: _raw("mount", b"x", b"/", b"tmpfs", 0, None),
    "bind a new root": lambda _: _raw("pivot_root", b"/", b"/"),
    "chroot": lambda _: os.chroot("/"),
    "open by handle": lambda _: _raw("open_by_handle_at", -100, bytes(136), 0),
    "become root": lambda _: os.setuid(0),
    "load a kernel module": lambda _: _raw("finit_module", 0, b"", 0),
    "set the host name": lambda _: socket.sethostname("attacker"),
    "push input to a terminal": lambda _: fcntl.ioctl(2, 0x5412, b"x"),
    "make memory to run from": lambda _: os.memfd_create("x"),
    "make a pipe with a name": lambda path: os.mkfifo(path + "-pipe"),
    "make a TCP socket": _socket(socket.AF_INET, socket.SOCK_STREAM),
    "make a UDP socket": _socket(socket.AF_INET, socket.SOCK_DGRAM),
    "raise its limit of": _raise_limit,
    # What it must be able to do:
    "read what it may": _read,
    "connect to": lambda port: socket.create_connection(("127.0.0.1", int(port)), 5).close(),
    "resolve": lambda name: socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM),
    "allocate": lambda size: len(mmap.mmap(-1, int(size))),
}


def _facts() -> dict[str, object]:
    return {"environment": dict(os.environ), "directory": os.getcwd()}  # noqa: PTH109


def _try(attack: Callable[[str], object], word: str) -> str:
    try:
        attack(word)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return "done"


def _write_into(channel: socket.socket) -> str:
    """Take a descriptor from the channel and write into its file, as a body is."""
    _, ancillary, _, _ = channel.recvmsg(64, socket.CMSG_SPACE(4))
    descriptors = array.array("i", ancillary[0][2])
    return _try(lambda _: os.pwrite(descriptors[0], b"body", 0), "")


def main(channel: socket.socket, arguments: list[str]) -> None:
    """Start as the fetcher does (`confined`), as a decoder (`decoder`) or without any confinement (`unconfined`), then
    attack as told."""
    packet, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1)
    configuration = read_order(packet)
    assert isinstance(configuration, Configure)
    facts = _facts()
    layers: tuple[str, ...] = ("none",)
    if arguments == ["confined"]:
        _, layers = prepare(configuration, read_memory_file(descriptors[0]).decode())
    elif arguments == ["decoder"]:
        layers = confine(decoder(Limits().decode_memory_bytes, file_bytes=DERIVATIVE_BYTES_MAX))
    channel.sendall(msgspec.json.encode(Ready(list(layers))))
    channel.sendall(json.dumps(facts | {"user": os.getuid()}).encode())
    while packet := channel.recv(4096):
        name, word = json.loads(packet)
        outcome = _write_into(channel) if name == "write into a descriptor" else _try(ATTACKS[name], word)
        channel.sendall(outcome.encode())
