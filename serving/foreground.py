"""Serves in the foreground until somebody says stop: what `worker embedded` does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from contracts.errors import WorkerUnavailable
from serving.embedded_worker import EmbeddedWorker

_STOP = (signal.SIGTERM, signal.SIGINT)


async def serve_until_stopped(worker: EmbeddedWorker, announce: Callable[[EmbeddedWorker], None]) -> None:
    """Start `worker`, call `announce` when it is ready, and stop it on SIGTERM or SIGINT.

    Raises WorkerUnavailable when it does not start or ends by itself. Needs the main thread's event loop.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in _STOP:
        loop.add_signal_handler(number, stopped.set)
    try:
        async with worker:
            announce(worker)
            told = asyncio.ensure_future(stopped.wait())
            ended = asyncio.ensure_future(worker.wait())
            try:
                await asyncio.wait({told, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not told.done():
                    raise WorkerUnavailable("worker-ended", f"the worker's process ended with code {ended.result()}")
            finally:
                told.cancel()
                ended.cancel()
    finally:
        for number in _STOP:
            loop.remove_signal_handler(number)
