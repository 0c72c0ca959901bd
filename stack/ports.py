"""The loopback ports of the stack: configured, or free ones that are kept, so that addresses stay over a restart."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

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
    held: list[socket.socket] = []
    try:
        for name in (*PUBLIC, *INTERNAL):
            wanted = configured.get(name, 0)
            sock = _bound(wanted) if wanted else (_bound(before.get(name, 0)) or _bound(0))
            if sock is None:
                raise NeedMissing("stack-port", f"port {wanted} is taken: free it, or set ports.{name}")
            held.append(sock)
            chosen[name] = sock.getsockname()[1]
    finally:
        for sock in held:
            sock.close()
    try:
        kept.write_bytes(msgspec.json.encode(chosen))
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
        return msgspec.json.decode(kept.read_bytes(), type=dict[str, Annotated[int, msgspec.Meta(ge=0, le=65535)]])
    except (OSError, msgspec.MsgspecError):
        return {}


def _bound(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None
