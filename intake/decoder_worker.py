"""One confined decoder, from the parent's side: started, asked one item at a time, killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from contracts.digest import wire_json
from contracts.errors import ChildFailed, MediaRejected, NeedMissing
from contracts.limits import Limits
from intake.decoder_wire import REPLY_BYTES, parse_object
from sandbox.spawn import Child, spawn

_MODULE = "intake.children.decode"
_START_S = 60.0  # imports take half a second of CPU; a machine may be very busy
_LAST_WORDS_S = 1.0  # a child that closed its channel ends by itself, and then says how


class DecoderWorker:
    """A child that said hello. `layers` are the isolation layers in force around it, `served` counts its items, and
    `succeeded` is the pool's note that its successor was started already."""

    def __init__(self, limits: Limits, stderr: int | None) -> None:
        self._limits = limits
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        self._child: Child = spawn(
            _MODULE, channel=theirs, arguments=[wire_json(asdict(limits)).decode()], stderr=stderr
        )
        self.layers: tuple[str, ...] = ()
        self.served = 0
        self.succeeded = False
        self._receiving = False

    @property
    def pid(self) -> int:
        """The child's process id, which is also its group."""
        return self._child.pid

    async def greet(self) -> None:
        """Wait until the child has given up its rights. Raises NeedMissing or ChildFailed `decoder-start`."""
        try:
            async with asyncio.timeout(_START_S):
                hello = parse_object(await self._receive())
        except TimeoutError as error:
            raise ChildFailed("decoder-start", f"no hello within {_START_S:g} s") from error
        if "missing" in hello:
            raise NeedMissing("isolation-missing", str(hello["missing"]))
        self.layers = tuple(str(layer) for layer in hello.get("layers", ()))

    async def ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> bytes:
        """Send one item and await its verdict, at most the wall time of an item.

        Raises MediaRejected `decode-wall-time` or `decode-cpu-time`, ChildFailed `decoder-died`. After any exception
        the worker is of no use and must be killed.
        """
        self.served += 1
        try:
            socket.send_fds(self._channel, [wire_json(request)], list(descriptors))
        except OSError:
            raise await self._death() from None
        try:
            async with asyncio.timeout(self._limits.decode_wall_s):
                return await self._receive()
        except TimeoutError as error:
            self.kill()
            raise MediaRejected("decode-wall-time", f"not decoded within {self._limits.decode_wall_s:g} s") from error

    def is_alive(self) -> bool:
        """Whether the child still runs."""
        return self._child.is_alive()

    def kill(self) -> int:
        """End the child and its group at once; who awaits its verdict is told of its death. Idempotent; the return
        code."""
        code = self._child.kill()
        if not self._receiving:  # else the end of file wakes the receiver, who closes
            self._channel.close()
        return code

    async def _receive(self) -> bytes:
        loop = asyncio.get_running_loop()
        self._receiving = True
        try:
            data = await loop.sock_recv(self._channel, REPLY_BYTES + 1)
        except OSError:
            data = b""
        finally:
            self._receiving = False
        if not data:
            raise await self._death()
        return data

    async def _death(self) -> MediaRejected | ChildFailed:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._child.wait()
        code = self.kill()
        if code == -signal.SIGXCPU:
            return MediaRejected("decode-cpu-time", f"more than {self._limits.decode_cpu_s} s of CPU time")
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return ChildFailed("decoder-died", f"the decoder ended by {how}")
