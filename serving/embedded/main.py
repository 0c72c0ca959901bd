"""The embedded worker's process, started with `sandbox.spawn.spawn` and a channel to its parent.

It loads the engine, listens on loopback, tells the port as one JSON line on the channel, and serves until SIGTERM or
until the channel ends. Standard error is its log: the engine's own lines and ours, never a prompt or an answer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from serving.embedded.app import OPEN_REQUESTS, build_app
from serving.embedded.engine import Engine
from serving.embedded.staged_media import StagedMedia

GRACE_S = 2


def main(channel: socket.socket, arguments: Sequence[str]) -> None:
    """Serve. `arguments` are `--bundle`, `--route`, `--staging`, `--port`, `--slots`, `--request-bytes`."""
    options = _parse(arguments)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the engine logs to standard output
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the engine's threads hold nothing worth a wait
    threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
    media = StagedMedia(options.staging)
    engine = Engine(options.bundle, options.route, media, slots=options.slots)
    with socket.create_server(("127.0.0.1", options.port), backlog=OPEN_REQUESTS) as listener:
        # asyncio sets it only where a socket names its protocol, which create_server's do not: each answer's first
        # piece then waited 40 ms for a delayed acknowledgement. Accepted sockets inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            build_app(engine, request_bytes=options.request_bytes),
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=OPEN_REQUESTS,
            timeout_graceful_shutdown=GRACE_S,
        )
        _Server(config, lambda: channel.sendall(json.dumps({"port": port}).encode() + b"\n")).run([listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--route", required=True)
    parser.add_argument("--staging", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--request-bytes", type=int, required=True)
    return parser.parse_args(arguments)


def _end_with(channel: socket.socket) -> None:
    """End when the parent's side of the channel does. The parent never writes."""
    while channel.recv(64):
        pass
    os._exit(0)
