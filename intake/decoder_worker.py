"""One confined decoder, from the parent's side: ordered from the zygote, asked one item at a time, killed."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from contracts.digest import wire_json
from contracts.errors import ChildFailed, MediaRejected, NeedMissing
from contracts.limits import Limits
from intake.decoder_wire import REPLY_BYTES, ended_by, parse_object
from intake.decoder_zygote import DecoderZygote

_LAST_WORDS_S = 1.0  # what was killed is gone in milliseconds, with much memory in tens of them


class DecoderWorker:
    """A decoder that said hello. `layers` are the isolation layers in force around it, `served` counts its items, and
    `succeeded` is the pool's note that its successor was ordered already."""

    def __init__(self, limits: Limits, zygote: DecoderZygote) -> None:
        self._limits = limits
        self._zygote = zygote
        self._channel = zygote.order()
        self._process: int | None = None  # a process descriptor: a number could be another's by now
        self._code: int | None = None
        self._receiving = False
        self.pid: int | None = None  # once it said hello
        self.layers: tuple[str, ...] = ()
        self.served = 0
        self.succeeded = False

    async def greet(self, start_s: float) -> None:
        """Wait until the child has given up its rights. Raises NeedMissing or ChildFailed `decoder-start`.

        Where it says nothing for so many seconds, what it is forked from hangs, and is ended with all its decoders.
        """
        try:
            async with asyncio.timeout(start_s):
                data, descriptors = await self._receive_descriptors()
        except TimeoutError as error:
            self._zygote.kill()
            raise ChildFailed("decoder-start", f"no hello within {start_s:g} s") from error
        if not data or ended_by(data) is not None:
            death = await self._death(data)
            raise ChildFailed("decoder-start", death.reason) from death
        try:
            (self._process,) = descriptors
            self.pid = _number_of(self._process)
        except (ValueError, OSError) as error:  # no descriptor was left for its process, or to read its number
            raise ChildFailed("decoder-start", f"{type(error).__name__} as it said hello") from error
        hello = parse_object(data)
        if "missing" in hello:
            raise NeedMissing(str(hello["rule"]), str(hello["missing"]))
        self.layers = tuple(str(layer) for layer in hello.get("layers", ()))

    async def ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> bytes:
        """Send one item and await its verdict, at most the wall time of an item.

        Raises MediaRejected `decode-wall-time` or `decode-cpu-time`, ChildFailed `decoder-died`. After any exception
        the worker is of no use and must be killed.
        """
        self.served += 1
        with suppress(OSError):  # it is gone: then the channel says how
            socket.send_fds(self._channel, [wire_json(request)], list(descriptors))
        try:
            async with asyncio.timeout(self._limits.decode_wall_s):
                data = await self._receive()
        except TimeoutError as error:
            self.kill()
            raise MediaRejected("decode-wall-time", f"not decoded within {self._limits.decode_wall_s:g} s") from error
        if not data or ended_by(data) is not None:
            raise await self._death(data)
        return data

    def is_idle(self) -> bool:
        """Whether it said hello, still runs, and says nothing unasked: that would be taken for its next verdict."""
        return self._process is not None and not _ready(self._process, 0) and not _ready(self._channel.fileno(), 0)

    def kill(self) -> None:
        """End it at once and wait until it is gone; who awaits its verdict is told of its death. Idempotent."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            self._drain()
            os.close(self._process)
            self._process = None
        if not self._receiving:  # else the end of file wakes the receiver, and the next call closes
            self._channel.close()

    def _drain(self) -> None:
        """Read until the zygote has buried it and let go of the channel, whatever it said itself before."""
        with suppress(OSError):
            while _ready(self._channel.fileno(), _LAST_WORDS_S) and (data := self._channel.recv(REPLY_BYTES + 1)):
                with suppress(ChildFailed):
                    self._code = ended_by(data) if self._code is None else self._code

    async def _receive(self) -> bytes:
        self._receiving = True
        try:
            return await asyncio.get_running_loop().sock_recv(self._channel, REPLY_BYTES + 1)
        except OSError:
            return b""
        finally:
            self._receiving = False

    async def _receive_descriptors(self) -> tuple[bytes, list[int]]:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._channel, readable.set)
        try:
            await readable.wait()
            data, descriptors, _, _ = socket.recv_fds(self._channel, REPLY_BYTES + 1, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return b"", []
        finally:
            loop.remove_reader(self._channel)
        return data, descriptors

    async def _death(self, last: bytes) -> MediaRejected | ChildFailed:
        """What its end means. Nobody but itself and the zygote could write `last`, and itself could as well refuse."""
        self.kill()
        code = ended_by(last) if last else self._code
        if code == -signal.SIGPROF:
            return MediaRejected("decode-cpu-time", f"more than {self._limits.decode_cpu_s} s of CPU time")
        if code is not None:
            return ChildFailed("decoder-died", f"the decoder ended by {_how(code)}")
        code = await self._zygote.ended_within(_LAST_WORDS_S)
        how = "it could not be forked" if code is None else f"what it was forked from ended by {_how(code)}"
        return ChildFailed("decoder-died", f"the decoder is gone: {how}")


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"


def _ready(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))


def _number_of(process: int) -> int:
    """The process id here of what a process descriptor refers to; in namespaces it has another (pidfd_open(2))."""
    lines = Path(f"/proc/self/fdinfo/{process}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Pid:")))
