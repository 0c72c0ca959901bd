"""What decoders are forked from, for the tests: decoders that were taken over. Each does what its medium says.

A medium is the beginning of a PNG and a word. Nothing is confined here, so that a lie is as bad as it can be.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from contracts.digest import wire_json
from intake.decoder_wire import REPLY_BYTES, last_word
from sandbox.parent_death import die_with_parent

PNG = b"\x89PNG\r\n\x1a\n"
_STOLEN = wire_json({"rule": "stolen", "reason": "the verdict of another item"})
_SO_SNDBUFFORCE = 32


def main(control: socket.socket, arguments: Sequence[str]) -> None:
    """Fork a liar for each order, and say its last word on its channel."""
    assert arguments
    poll, forks = select.poll(), dict[int, tuple[int, socket.socket]]()
    poll.register(control, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != control.fileno():
                _bury(ready, *forks.pop(ready), poll)
                continue
            _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not descriptors:
                return
            channel = socket.socket(fileno=descriptors[0])
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                die_with_parent(parent)
                for other in (control, *(each for _, each in forks.values())):
                    other.close()
                _lie_until_the_end(channel)
            process = os.pidfd_open(pid)
            forks[process] = (pid, channel)
            poll.register(process, select.POLLIN)


def _bury(process: int, pid: int, channel: socket.socket, poll: select.poll) -> None:
    poll.unregister(process)
    os.close(process)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with channel:
        try:
            channel.send(last_word(code), socket.MSG_DONTWAIT)
        except OSError:
            return


def _lie_until_the_end(channel: socket.socket) -> None:
    process = os.pidfd_open(os.getpid())
    socket.send_fds(channel, [wire_json({"layers": ["none"]})], [process])
    os.close(process)
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, 4_096, 2)
        if not request:
            os._exit(0)
        word = os.pread(descriptors[0], 64, len(PNG)).decode()
        LIES[word](channel, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def accepted(**findings: Any) -> bytes:
    """The verdict of a decoder that took its item for a PNG."""
    return wire_json({"media_type": "image/png", "findings": findings})


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _truth(channel: socket.socket, descriptors: Sequence[int]) -> None:
    channel.send(accepted(descriptors=len(descriptors)))


def _answers_twice(channel: socket.socket, _: Sequence[int]) -> None:
    channel.send(accepted())
    channel.send(_STOLEN)
    _stop()


def _answers_and_stops(channel: socket.socket, _: Sequence[int]) -> None:
    channel.send(accepted())
    _stop()


def _ends_badly(channel: socket.socket, _: Sequence[int]) -> None:
    channel.send(b'{"ended":}')
    for code in (10**9, 1e9, "0", None):
        channel.send(wire_json({"ended": code}))
    _stop()


def _floods(channel: socket.socket, _: Sequence[int]) -> None:
    channel.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 16 << 20)
    while True:
        channel.send(b'{"ended":' + b"x" * REPLY_BYTES)


def _smuggles(channel: socket.socket, descriptors: Sequence[int]) -> None:
    for _ in range(8):
        socket.send_fds(channel, [accepted()], [descriptors[0]] * 100)
    _stop()


def _keeps_its_channel(channel: socket.socket, _: Sequence[int]) -> None:
    channel.send(accepted())
    socket.send_fds(channel, [_STOLEN], [channel.fileno()])
    _stop()


def _changes_the_medium(channel: socket.socket, descriptors: Sequence[int]) -> None:
    medium = descriptors[0]
    again = f"/proc/self/fd/{medium}"
    attempts: dict[str, Callable[[], object]] = {
        "write": lambda: os.pwrite(medium, b"x", 0),
        "append": lambda: os.pwrite(medium, b"x", os.fstat(medium).st_size),
        "shrink": lambda: os.ftruncate(medium, 1),
        "grow": lambda: os.ftruncate(medium, 1 << 20),
        "punch": lambda: os.posix_fallocate(medium, 1 << 20, 1),
        "map": lambda: mmap.mmap(medium, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        "seal": lambda: fcntl.fcntl(medium, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW),
        "write anew": lambda: os.pwrite(os.open(again, os.O_RDWR), b"x", 0),
        "truncate anew": lambda: os.open(again, os.O_RDWR | os.O_TRUNC),
    }
    channel.send(accepted(**{name: _outcome(attempt) for name, attempt in attempts.items()}))


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except PermissionError:
        return "refused"
    return "done"


def _spins(*_: object) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _lets_go(channel: socket.socket, _: Sequence[int]) -> None:
    channel.close()
    _stop()


def _sent(data: bytes) -> Callable[[socket.socket, Sequence[int]], None]:
    def send(channel: socket.socket, _: Sequence[int]) -> None:
        channel.sendall(data)
        _stop()

    return send


def _half_a_frame(channel: socket.socket, _: Sequence[int]) -> None:
    channel.send(accepted(width=3)[:-9])
    os._exit(0)


def _dies(_channel: socket.socket, _: Sequence[int]) -> None:
    os._exit(7)


LIES: dict[str, Callable[[socket.socket, Sequence[int]], None]] = {
    "truth": _truth,
    "answers twice": _answers_twice,
    "answers and stops": _answers_and_stops,
    "ends badly": _ends_badly,
    "floods": _floods,
    "smuggles": _smuggles,
    "keeps its channel": _keeps_its_channel,
    "changes the medium": _changes_the_medium,
    "lets go": _lets_go,
    "spins": _spins,
    "stops": lambda *_: _stop(),
    "half a frame": _half_a_frame,
    "dies": _dies,
    "an empty frame": _sent(b""),
    "a giant": _sent(wire_json({"rule": "r", "reason": "x" * (64 << 10)})),
    "says hello again": _sent(wire_json({"layers": ["landlock-7"]})),
    "a derivative nobody wants": _sent(
        wire_json({"media_type": "image/png", "findings": {}, "transformation": {}, "derivative_bytes": 9})
    ),
    "another type": _sent(wire_json({"media_type": "image/jpeg", "findings": {}})),
    "another kind": _sent(wire_json({"media_type": "audio/wav", "findings": {}})),
    "its own last word": _sent(last_word(0)),
    "a binary frame": _sent(struct.pack("<I", 7) + b"{}"),
}
