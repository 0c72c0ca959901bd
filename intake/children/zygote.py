"""What decoders are forked from: everything imported and warm, one thread, all rights, and never a byte of a medium.

Started by intake/decoder_zygote through sandbox.spawn. Each order on the control channel is one byte and one
descriptor: the child's end of a channel of a decoder's own. The fork gives up its rights before it reads from it
(intake/children/decode). Nothing comes from a fork to here: only the kernel tells that one has ended, and the pool is
told how on that channel, as its last word. End of file on the control channel ends this process, and with it all forks.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from contracts.limits import Limits
from intake.children import decode
from intake.decoder_wire import last_word
from sandbox.parent_death import die_with_parent


@dataclass(frozen=True, slots=True)
class _Fork:
    pid: int
    channel: socket.socket


def main(control: socket.socket, arguments: Sequence[str]) -> None:
    """Warm up, then fork as ordered. `arguments` are the limits as JSON, and `unsafe` where that was wanted."""
    limits = Limits(**json.loads(arguments[0]))
    magic = decode.prepare(limits)
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, every page that all share
    zygote = _Zygote(control, limits, magic, unsafe="unsafe" in arguments[1:])
    while zygote.serve():
        pass


class _Zygote:
    def __init__(self, control: socket.socket, limits: Limits, magic: Any, *, unsafe: bool) -> None:
        self._control = control
        self._limits = limits
        self._magic = magic
        self._unsafe = unsafe
        self._forks: dict[int, _Fork] = {}  # by process descriptor
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> bool:
        """Wait for orders and ends; False when the pool is gone."""
        for ready, _ in self._poll.poll():
            if ready != self._control.fileno():
                self._bury(ready)
                continue
            _, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
            if not descriptors:
                return False
            with suppress(OSError):  # no process could be made: the channel ends without a word
                self._fork(socket.socket(fileno=descriptors[0]))
        return True

    def _fork(self, channel: socket.socket) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            channel.close()
            raise
        if pid == 0:
            self._become_decoder(channel, parent)
        process = os.pidfd_open(pid)
        self._forks[process] = _Fork(pid, channel)
        self._poll.register(process, select.POLLIN)

    def _become_decoder(self, channel: socket.socket, parent: int) -> NoReturn:
        """Keep nothing but the channel, and never return to what was forked."""
        code = 1
        try:
            die_with_parent(parent)
            self._control.close()
            for process, fork in self._forks.items():
                os.close(process)
                fork.channel.close()
            decode.serve(channel, self._limits, self._magic, unsafe=self._unsafe)
            code = 0
        except BrokenPipeError:
            code = 0  # the pool was closed meanwhile
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _bury(self, process: int) -> None:
        fork = self._forks.pop(process)
        self._poll.unregister(process)
        os.close(process)
        code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        with fork.channel, suppress(OSError):  # the pool may not wait for it, or have left no room
            fork.channel.send(last_word(code), socket.MSG_DONTWAIT)
