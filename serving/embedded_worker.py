"""Runs the embedded worker: unpacks its model, starts its process, waits until it is ready, stops it.

The process dies with us: the kernel's parent-death signal, and the end of the channel between us. It gets a minimal
environment of its own; nothing of ours is inherited.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from functools import cache
from importlib import metadata, util
from pathlib import Path

from contracts.artifact import Modality
from contracts.digest import Digest
from contracts.errors import NeedMissing, StorageError, WorkerUnavailable
from contracts.limits import Limits
from contracts.release import Release
from contracts.release_document import Build, KeyValuePolicy, Model, ReleaseLimits, Wheel
from sandbox.spawn import Child, spawn
from serving.calibration.bundle import unpack
from serving.model_bundle import ModelBundle, file_digest
from serving.readiness import Verdict, check_serving

ENGINE = "0.9.5"
SLOTS = 4  # two cores: more sequences at once only share them
CONTEXT_TOKENS = 4096  # of both tiny bundles; the engine refuses a longer prompt

_START_S = 60.0  # loading takes 0.5 s on an idle machine
_STOP_S = 5.0


class EmbeddedWorker:
    """A worker of our own on a loopback port: `async with EmbeddedWorker(…) as worker`.

    `bundle` is the calibration model where None is given. `port` 0 takes any free one. `log_path` is
    `<home>/logs/embedded-worker.log` where None is given; what it holds are the engine's own lines. Media URLs must lie
    below `staging_root` as it is resolved here.
    """

    def __init__(
        self,
        home: Path,
        staging_root: Path,
        *,
        bundle: ModelBundle | None = None,
        port: int = 0,
        log_path: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._home = home.resolve()
        self.staging_root = staging_root.resolve()
        self._bundle = bundle
        self._port = port
        self._log_path = log_path or self._home / "logs" / "embedded-worker.log"
        self._limits = limits or Limits()
        self._child: Child | None = None
        self._channel: socket.socket | None = None
        self._release: Release | None = None
        self.url = ""

    @property
    def release(self) -> Release:
        """What this worker serves. Raises WorkerUnavailable before it was started."""
        if self._release is None:
            raise WorkerUnavailable("worker-not-started", "the embedded worker was not started")
        return self._release

    @property
    def pid(self) -> int | None:
        """The worker's process, while it runs."""
        return None if self._child is None else self._child.pid

    def __repr__(self) -> str:
        return f"<EmbeddedWorker {self.url or 'stopped'} pid {self.pid}>"

    async def __aenter__(self) -> EmbeddedWorker:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def wait(self) -> int:
        """Wait until the process ends by itself; returns its code, negative for a signal."""
        return 0 if self._child is None else await self._child.wait()

    async def stop(self) -> int:
        """SIGTERM, wait, SIGKILL; idempotent. Returns the process's code, negative for a signal."""
        child, self._child = self._child, None
        channel, self._channel = self._channel, None
        self.url = ""
        try:
            return 0 if child is None else await child.stop(_STOP_S)
        finally:
            if channel is not None:
                channel.close()

    async def _start(self) -> None:
        bundle = self._bundle
        if bundle is None:
            bundle = await asyncio.to_thread(unpack, self._home)
        self.staging_root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._spawn(bundle)  # in this thread: the parent-death signal follows the thread that starts the child
        self._release = await asyncio.to_thread(release_of, bundle)
        try:
            async with asyncio.timeout(_START_S):
                port = await self._announced_port()
                self.url = f"http://127.0.0.1:{port}"
                gates = await check_serving(self.url, route=bundle.route)
        except TimeoutError:
            raise self._failed(f"it was not ready within {_START_S:g} s") from None
        for gate in gates:
            if gate.verdict is not Verdict.PASS:
                raise self._failed(f"gate {gate.name}: {gate.reason}")

    def _spawn(self, bundle: ModelBundle) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._channel = ours
        arguments = {
            "--bundle": bundle.path,
            "--route": bundle.route,
            "--staging": self.staging_root,
            "--port": self._port,
            "--slots": SLOTS,
            "--request-bytes": self._limits.request_bytes,
        }
        try:
            self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = self._log_path.open("ab")
        except OSError as error:
            theirs.close()
            raise StorageError("worker-log", f"cannot write the worker's log: {error.strerror}") from error
        with log:
            self._child = spawn(
                "serving.embedded.main",
                channel=theirs,
                arguments=[text for name, value in arguments.items() for text in (name, str(value))],
                environment=_environment(self._home / "engine"),
                stderr=log.fileno(),
            )

    async def _announced_port(self) -> int:
        assert self._channel is not None  # noqa: S101  (set by _spawn)
        line = b""
        while not line.endswith(b"\n"):
            data = await asyncio.get_running_loop().sock_recv(self._channel, 256)
            if not data:
                raise self._failed("its process ended while it started")
            line += data
        port: int = json.loads(line)["port"]
        return port

    def _failed(self, what: str) -> WorkerUnavailable:
        tail = ""
        with contextlib.suppress(OSError):
            lines = self._log_path.read_bytes()[-2000:].decode(errors="replace").splitlines()
            tail = f": {lines[-1][:200]}" if lines else ""
        return WorkerUnavailable("worker-start", f"{what}; see {self._log_path}{tail}")


def release_of(bundle: ModelBundle) -> Release:
    """The release that the embedded engine and `bundle` are. Raises NeedMissing without the engine's wheel.

    It was made here, so there is no upstream commit and there are no licence files; nor is there a server to launch.
    """
    name = "calibration" if bundle.calibration_model else "embedded"
    return Release(
        document="release.v1",
        name=f"{name}-{ENGINE}",
        engine=ENGINE,
        build=Build(
            binary=None,
            wheel=Wheel(distribution="mistralrs", version=ENGINE, library=str(_extension_digest())),
            target=None,
            features=None,
            toolchain=None,
            driver=None,
        ),
        backend="cpu",
        route=bundle.route,
        model=_model_of(bundle),
        launch=None,
        kv=KeyValuePolicy(paged_attention="off", prefix_cache_n=0, tenants="shared"),
        modalities=(Modality.IMAGE, Modality.AUDIO, Modality.VIDEO),
        limits=ReleaseLimits(
            context_tokens=CONTEXT_TOKENS,
            max_seqs=SLOTS,
            max_seq_len=None,
            max_batch_size=None,
            max_num_images=None,
            max_edge=None,
            max_image_length=None,
        ),
        calibration_model=bundle.calibration_model,
    )


def _model_of(bundle: ModelBundle) -> Model:
    """The bundle as a release names it."""
    return Model(
        public_id=f"mosaic/{bundle.route.removeprefix('mosaic-')}",
        revision=None,
        bundle=str(bundle.digest),
        tokenizer=_digest_within(bundle, "tokenizer.json"),
        processor=_digest_within(bundle, "processor_config.json"),
        chat_template=_chat_template_digest(bundle),
        licences=(),
        format="plain",
        dtype="f32",
        quantisation=None,
        topology=None,
    )


def _digest_within(bundle: ModelBundle, name: str) -> str | None:
    path = bundle.path / name
    return str(file_digest(path)) if path.exists() else None


def _chat_template_digest(bundle: ModelBundle) -> str | None:
    """Of the template's text, which stands in the tokenizer's configuration; None where the bundle has none."""
    path = bundle.path / "tokenizer_config.json"
    if not path.exists():
        return None
    try:
        configuration = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError("model-bundle-unreadable", f"{path.name}: {type(error).__name__}") from error
    template = configuration.get("chat_template") if isinstance(configuration, dict) else None
    return str(Digest.of(template.encode())) if isinstance(template, str) else None


@cache
def _extension_digest() -> Digest:
    """The digest of the installed engine, 82 MB of compiled code: found without importing it."""
    spec = util.find_spec("mistralrs")
    if spec is None or spec.origin is None or metadata.version("mistralrs") != ENGINE:
        raise NeedMissing(
            "engine-wheel", f"the embedded worker needs mistralrs=={ENGINE}: pip install -r requirements.lock"
        )
    return file_digest(Path(spec.origin).with_name("mistralrs.abi3.so"))


def _environment(engine_home: Path) -> Mapping[str, str]:
    return {
        "LANG": "C.UTF-8",
        "HOME": str(engine_home),
        "HF_HOME": str(engine_home / "hub"),
        "HF_HUB_OFFLINE": "1",
        "TMPDIR": str(engine_home),
        "NO_COLOR": "1",
        "RUST_LOG": "warn,toktrie_hf_tokenizers=error",  # silent on ids without a token, which we know of
    }
