"""Starting children: own session, a given environment, no descriptor but the channel, and never outliving us.

The kernel's parent-death signal fires when the *thread* that started the child ends (prctl(2)), so spawn only from
a thread that lives as long as the child should: the main thread, or an event loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.namespaces import View

_HERE = Path(__file__).resolve().parent

MINIMAL_ENVIRONMENT: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",  # a library's thread pool would start before the confinement and escape Landlock
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB of the address space that RLIMIT_AS counts
}
"""What a confined child needs of an environment. Nothing of ours is inherited."""


class Child:
    """A process in a session of its own. `pid` is also its process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """None while it was not reaped; negative is the signal that ended it."""
        return self._process.returncode

    @property
    def worker_pid(self) -> int:
        """The process that runs the module: `pid`, or the one in the namespaces that `pid` waits for."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return next((int(child) for child in children if _is_first_of_namespace(child)), self.pid)

    def is_alive(self) -> bool:
        """Whether it still runs. Does not reap, so that its group can be killed safely later."""
        if self._process.returncode is not None:
            return False
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return status is None

    def terminate(self) -> None:
        """Ask the whole group to end (SIGTERM)."""
        self._signal(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL the whole group and reap the child. Idempotent; returns its return code."""
        self._signal(signal.SIGKILL)
        return self._process.wait()

    async def wait(self) -> int:
        """Wait for the child to end, kill what is left of its group and reap it, without blocking the event loop."""
        if self._process.returncode is None:
            await _readable(os.pidfd_open(self.pid))
        return self.kill()

    async def stop(self, grace_s: float) -> int:
        """SIGTERM, then SIGKILL after `grace_s` seconds. Returns the return code."""
        self.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.wait()
        return self.kill()

    def _signal(self, number: signal.Signals) -> None:
        # Only before the leader is reaped: until then its number cannot name another group.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def spawn(
    module: str,
    *,
    channel: socket.socket,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] = MINIMAL_ENVIRONMENT,
    stderr: int | None = None,
    view: View | None = None,
) -> Child:
    """Start `module.main(channel, arguments)` in a child: `sys.executable -I`, directory `/`, no other descriptor.

    With a `view` the module runs in namespaces of its own that show no more than that, where the machine lets them be
    made; whether it did is among the layers that `confine` names.

    `channel` is the child's end of a socket pair and is closed here. `stderr` is a descriptor, or None to discard.
    Both ends of the channel should also be watched for end of file: it comes when the other side is gone.
    """
    with channel:
        script = str(_HERE / "child_main.py")
        places = "" if view is None else "\n".join(view.places(module))
        argv = [sys.executable, "-I", script, str(os.getpid()), str(channel.fileno()), places, module, *arguments]
        return _start(argv, environment, None, stderr, "/", (channel.fileno(),))


def spawn_program(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdout: int | None = None,
    stderr: int | None = None,
    directory: str | Path = "/",
    user: str | None = None,
) -> Child:
    """Start a foreign program that dies with us, as `user` where we may change it. Descriptors as in `spawn`; what it
    starts itself is killed with its group by `Child.kill`, but only the program itself by our death."""
    script = str(_HERE / "run_with_parent.py")
    command = [sys.executable, "-I", script, str(os.getpid()), user or "", *argv]
    return _start(command, environment, stdout, stderr, directory, ())


def _start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    stdout: int | None,
    stderr: int | None,
    directory: str | Path,
    descriptors: tuple[int, ...],
) -> Child:
    return Child(
        subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if stdout is None else stdout,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            cwd=str(directory),
            pass_fds=descriptors,
            start_new_session=True,
        )
    )


def _is_first_of_namespace(pid: str) -> bool:
    """Whether it is process 1 in a namespace of its own (NSpid in proc_pid_status(5))."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return numbers[1:] != [] and numbers[-1] == "1"


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
