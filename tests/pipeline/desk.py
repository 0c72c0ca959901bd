"""Runs of the pipeline in this process, over a home and a folder of the test's own, and what the ledger has of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from contracts.digest import wire_json
from contracts.network_policy import NetworkPolicy
from contracts.receipt import Receipt, parse_receipt
from pipeline.loading import LoadedBundle, load_bundle
from pipeline.running import Run, open_run
from serving.calibration.bundle import ROUTE
from serving.calibration.world import draw
from serving.readiness import _PROBE as PROBE
from settings.values import Settings
from storage.home import Storage, open_storage
from storage.verify import VerdictName, verify_receipt
from tests.media_samples import encode, picture
from tests.simulators import worker as simulated
from tests.simulators.worker import Reply

T = TypeVar("T")
PNG = encode(picture(), "PNG")
POLICY = "tests-unsafe-loopback"


def ask(name: str, *parts: dict[str, str], **more: Any) -> dict[str, Any]:
    """A question about `parts` (and a text after them)."""
    return {"id": name, "parts": [*parts, {"text": "What colour is the shape?"}], **more}


def write_bundle(folder: Path, *questions: dict[str, Any], **top: Any) -> Path:
    """A bundle's file in `folder`, beside `circle.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "circle.png").write_bytes(PNG)
    path = folder / "bundle.json"
    document = {"version": 1, "id": "tests", "max_output_tokens": 12, **top, "questions": list(questions)}
    path.write_text(json.dumps(document), "utf-8")
    return path


def settings_of(home: Path, *, port: int | None = None, **more: Any) -> Settings:
    """Settings with few children; `port` is that of a loopback origin that may be fetched from."""
    settings = Settings(home=home, decode_workers=1)
    if port is not None:
        policy = NetworkPolicy(POLICY, schemes=("http",), ports=(port,), unsafe_allow_networks=("127.0.0.1/32",))
        settings = replace(settings, policy=POLICY, policies={POLICY: policy})
    return replace(settings, **more)


def load(path: Path, settings: Settings) -> LoadedBundle:
    """The bundle, read as the product reads it."""
    return load_bundle(path, settings)


@asynccontextmanager
async def opened(path: Path, settings: Settings, *, again: bool = True) -> AsyncIterator[Run]:
    """An open run of the bundle at `path`."""
    async with open_run(settings, load_bundle(path, settings), again=again) as run:
        yield run


GATES = 3
"""Requests of a start before the first question: health, models, and a picture whose answer is known."""


def served(*replies: Reply) -> list[Reply]:
    """`replies` of a worker that is ready: before them it answers the readiness gates."""
    models = wire_json({"object": "list", "data": [{"id": ROUTE, "status": "loaded"}]})
    plain = (("content-type", "application/json"),)
    probe = _routed(simulated.answer(draw(*PROBE).answer))
    return [Reply((b"OK",), headers=plain), Reply((models,), headers=plain), probe, *map(_routed, replies)]


def _routed(reply: Reply) -> Reply:
    old, new = wire_json(simulated.ROUTE), wire_json(ROUTE)
    return replace(reply, pieces=tuple(piece.replace(old, new) for piece in reply.pieces))


def reading(home: Path, look: Callable[[Storage], T]) -> T:
    """What `look` sees in the storage at `home`, opened a second time beside whoever works with it."""
    storage = open_storage(home)
    try:
        return look(storage)
    finally:
        storage.close()


def receipts(home: Path) -> list[Receipt]:
    """Every receipt of the ledger, each verified from the store alone."""

    def verified(storage: Storage) -> list[Receipt]:
        found = []
        for identity, data in storage.receipts.all(tenant="default"):
            verdict = verify_receipt(identity, data, storage.blobs)
            assert verdict.verdict is VerdictName.VALID, verdict.to_json()
            found.append(parse_receipt(data))
        return found

    return reading(home, verified)
