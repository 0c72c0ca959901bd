"""The loopback ports of the stack: configured, or free ones that are kept, so that addresses stay over a restart."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from contracts.errors import NeedMissing, StorageError

PUBLIC = ("postgres", "prefect", "s3", "worker")
"""Those that a setting can name."""
INTERNAL = ("s3_grpc", "master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc")
"""SeaweedFS's own."""


def choose_ports(kept: Path, configured: Mapping[str, int]) -> dict[str, int]:
    """A free port for each name, written to `kept`.

    A configured port that is taken raises NeedMissing; one that was kept and is taken is chosen anew.
    """
    chosen: dict[str, int] = {}
    before = _read(kept)
    with_sockets: list[socket.socket] = []
    try:
        for name in (*PUBLIC, *INTERNAL):
            wanted = configured.get(name, 0)
            sock = _bound(wanted) if wanted else (_bound(before.get(name, 0)) or _bound(0))
            if sock is None:
                raise NeedMissing("stack-port", f"port {wanted} is taken: free it, or set ports.{name}")
            with_sockets.append(sock)
            chosen[name] = sock.getsockname()[1]
    finally:
        for sock in with_sockets:
            sock.close()
    try:
        kept.write_text(json.dumps(chosen, indent=1), "ascii")
    except OSError as error:
        raise StorageError("stack-ports", f"cannot write {kept}: {error.strerror}") from error
    return chosen


def listening(ports: Mapping[str, int]) -> dict[str, int]:
    """Those of `ports` on which something still listens on loopback."""
    found = {}
    for name, port in ports.items():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            found[name] = port
    return found


def _read(kept: Path) -> dict[str, int]:
    try:
        return dict(json.loads(kept.read_text("ascii")))
    except (OSError, ValueError):
        return {}


def _bound(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None
