"""The process that decoders are forked from, from the parent's side."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import asdict

from contracts.digest import wire_json
from contracts.errors import ChildFailed
from contracts.limits import Limits
from sandbox.namespaces import View
from sandbox.spawn import Child, spawn

_VIEW = View(("intake",))


class DecoderZygote:
    """Starts with the first order, and again where it has died; its decoders die with it. See docs/adr/0007.

    `module` is what it runs.
    """

    def __init__(
        self, limits: Limits, *, stderr: int | None, unsafe: bool, module: str = "intake.children.zygote"
    ) -> None:
        self._module = module
        self._arguments = [wire_json(asdict(limits)).decode(), *(["unsafe"] if unsafe else [])]
        self._stderr = stderr
        self._child: Child | None = None
        self._control: socket.socket | None = None

    @property
    def pids(self) -> frozenset[int]:
        """The process ids of it: one, or with namespaces also the one outside."""
        if self._child is None or not self._child.is_alive():
            return frozenset()
        return frozenset({self._child.pid, self._child.worker_pid})

    def order(self) -> socket.socket:
        """Order a decoder; returns our end of its channel, on which it will say hello.

        Raises ChildFailed `decoder-start` when the order cannot be given.
        """
        try:
            if self._child is None or self._control is None or not self._child.is_alive():
                self.kill()
                self._child, self._control = self._start()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise ChildFailed("decoder-start", f"{type(error).__name__} (errno {error.errno})") from error
        ours.setblocking(False)
        try:
            with theirs:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise ChildFailed("decoder-start", f"{type(error).__name__} from who starts decoders") from error
        return ours

    async def ended_within(self, seconds: float) -> int | None:
        """Its return code, once it has ended; None when it still lives after so many seconds."""
        if self._child is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._child.wait()
        return self._child.returncode

    def kill(self) -> None:
        """End it with everything it forked, which is in its group."""
        if self._child is not None:
            self._child.kill()
        if self._control is not None:
            self._control.close()
        self._child = self._control = None

    def _start(self) -> tuple[Child, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            child = spawn(self._module, channel=theirs, arguments=self._arguments, stderr=self._stderr, view=_VIEW)
        except OSError:
            ours.close()
            raise
        return child, ours
