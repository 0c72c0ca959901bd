"""Readiness by gate: whether a worker can answer, from the outermost sign to a question with a known answer.

`/health` stays green with a dead engine, so only the last gate tells; the ones before say where it hangs. Gates run
in order, and after a failed one the rest are skipped.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.engine_text import shown
from contracts.errors import EvidenceError
from contracts.limits import Limits
from contracts.locator import FileSource
from contracts.outcome import Outcome
from contracts.profile import profile as profile_of
from contracts.question import MediaPart, Question, TextPart
from contracts.request import build_request
from inference.client import WorkerClient
from serving.calibration import world
from serving.calibration.bundle import ROUTE as CALIBRATION_ROUTE

GATE_S = 10.0
PROBE_S = 60.0
MODELS = 64
ANSWER_BYTES = 64 << 10
PROBE_TENANT = "readiness-probe"

_PROBE = ("colour", world.HELD_OUT + 900_000)


class Verdict(str, Enum):
    """What a gate found."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate's result, with its reason in words."""

    name: str
    verdict: Verdict
    reason: str


class GateFailed(EvidenceError):
    """A gate is not passed; `reason` says why."""


_Check = Callable[[], Awaitable[str]]


async def check_serving(url: str, *, route: str | None = None) -> list[Gate]:
    """The gates `tcp`, `health` and `models`: whether something serves `route` at `url`.

    Without a route the one loaded model is taken. Never raises for what is found there.
    """
    gates, _ = await _serving(url, route)
    return gates


async def check_ready(
    url: str, *, route: str | None = None, engine: str = "0.9.5", staging_root: Path | None = None
) -> list[Gate]:
    """All gates. `semantic` asks the calibration model about a picture, staged below `staging_root` (absolute)
    meanwhile; it is skipped for other models, whose right answers we do not know, and without a staging root."""
    gates, found = await _serving(url, route)
    if any(gate.verdict is Verdict.FAIL for gate in gates):
        gates.append(Gate("semantic", Verdict.SKIP, "an earlier gate failed"))
    elif found != CALIBRATION_ROUTE:
        gates.append(Gate("semantic", Verdict.SKIP, f"no question with a known answer for {found}"))
    elif staging_root is None:
        gates.append(Gate("semantic", Verdict.SKIP, "no staging root was given to put a picture in"))
    else:
        root = staging_root
        gates.append(await _gate("semantic", lambda: _ask(url, found, engine, root), PROBE_S))
    return gates


async def _serving(url: str, route: str | None) -> tuple[list[Gate], str]:
    found = ""

    async def models() -> str:
        nonlocal found
        found = _loaded_route(await _get(client, "/v1/models"), route)
        return f"{found} is loaded"

    gates: list[Gate] = []
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=GATE_S) as client:
        checks: list[tuple[str, _Check]] = [
            ("tcp", lambda: _connect(url)),
            ("health", lambda: _health(client)),
            ("models", models),
        ]
        for name, check in checks:
            if gates and gates[-1].verdict is not Verdict.PASS:
                gates.append(Gate(name, Verdict.SKIP, "an earlier gate failed"))
            else:
                gates.append(await _gate(name, check, GATE_S))
    return gates, found


async def _gate(name: str, check: _Check, seconds: float) -> Gate:
    try:
        async with asyncio.timeout(seconds):
            return Gate(name, Verdict.PASS, await check())
    except EvidenceError as error:
        return Gate(name, Verdict.FAIL, error.reason)
    except TimeoutError:
        return Gate(name, Verdict.FAIL, f"no answer within {seconds:g} s")
    except (httpx.HTTPError, OSError) as error:
        return Gate(name, Verdict.FAIL, f"the connection failed: {type(error).__name__}")


async def _connect(url: str) -> str:
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise GateFailed("worker-url", "the worker's URL has no usable port") from None
    _, writer = await asyncio.open_connection(parts.hostname, port)
    writer.close()
    return f"port {port} accepts"


async def _health(client: httpx.AsyncClient) -> str:
    body = await _get(client, "/health")
    if body.strip() != b"OK":
        raise GateFailed("health", f"expected OK, got {len(body)} other bytes")
    return "OK"


async def _get(client: httpx.AsyncClient, path: str) -> bytes:
    """The body of a 200, bounded while it arrives."""
    async with client.stream("GET", path, headers={"accept-encoding": "identity"}) as response:
        if response.status_code != 200:
            raise GateFailed("status", f"{path}: expected status 200, got {response.status_code}")
        body = b""
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > ANSWER_BYTES:
                raise GateFailed("size", f"{path}: more than {ANSWER_BYTES} bytes")
    return body


class _Model(msgspec.Struct):
    id: str
    status: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


def _loaded_route(body: bytes, route: str | None) -> str:
    """The route that is served, exactly once and loaded. `default` is an alias that says nothing."""
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except msgspec.MsgspecError:
        raise GateFailed("models", f"the {len(body)} bytes are not a list of models") from None
    if len(models) > MODELS:
        raise GateFailed("models", f"expected at most {MODELS} models, got {len(models)}")
    named = [model for model in models if model.id != "default" and route in (None, model.id)]
    if len(named) != 1:
        raise GateFailed("models", f"expected {shown(route or 'one model')} exactly once, got {len(named)} entries")
    if named[0].status != "loaded":
        raise GateFailed("models", f"expected status loaded, got {shown(named[0].status or 'none')}")
    return named[0].id


async def _ask(url: str, route: str, engine: str, staging_root: Path) -> str:
    case = world.draw(*_PROBE)
    (picture,) = case.media
    data, media_type = picture.encode(), world.media_type_of(picture)
    artifact = Artifact(Digest.of(data), len(data), media_type, world.modality_of(picture))
    limits, profile = Limits(), profile_of(engine)
    question = Question((MediaPart(artifact, FileSource("probe")), TextPart(case.question)), max_output_tokens=12)
    async with _staged(staging_root, artifact, data) as staged:
        request = build_request(
            question, profile=profile, route=route, staged_url=lambda _: staged.as_uri(), limits=limits
        )
        async with WorkerClient(url, profile=profile, route=route, limits=limits) as client:
            got = await client.submit(request, request_id=f"probe-{secrets.token_hex(8)}")
    if got.outcome is not Outcome.COMPLETE:
        raise GateFailed("semantic", f"expected an answer, got {got.outcome.value}: {got.reason}")
    text = (got.text or "").strip()
    if text != case.answer:
        raise GateFailed("semantic", f"expected {case.answer!r}, got {shown(text)!r}")
    return f"answered {case.answer!r} to {case.question!r}"


@asynccontextmanager
async def _staged(root: Path, artifact: Artifact, data: bytes) -> AsyncIterator[Path]:
    """A read-only file under a tenant of the probe's own, gone afterwards."""
    folder = root / f"{PROBE_TENANT}-{os.getpid()}-{secrets.token_hex(4)}"
    path = folder / artifact.staged_name
    try:
        folder.mkdir(mode=0o700)
        path.write_bytes(data)
        path.chmod(0o444)
        yield path
    finally:
        path.unlink(missing_ok=True)
        if folder.is_dir():
            folder.rmdir()
