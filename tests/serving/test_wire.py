"""The embedded worker's HTTP surface: what it answers, what it refuses, and that a lost reader costs nothing."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

import httpx
import pytest

from contracts.limits import Limits
from serving.embedded_worker import EmbeddedWorker
from serving.readiness import Verdict, check_ready, check_serving
from tests.engine_worker import ask
from tests.world import golden_cases, question_of

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]

_CHAT = "/v1/chat/completions"


def _body(**changed: Any) -> dict[str, Any]:
    body = {"model": "default", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "stream": True}
    return {name: value for name, value in (body | changed).items() if value is not None}


def _client(worker: EmbeddedWorker) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=worker.url, trust_env=False)


async def test_health_and_models(worker: EmbeddedWorker) -> None:
    """Health is `OK`; the models are the alias without a status and the exact route, loaded."""
    async with _client(worker) as client:
        assert (await client.get("/health")).text == "OK"
        models = (await client.get("/v1/models")).json()["data"]
    assert [(model["id"], model.get("status")) for model in models] == [
        ("default", None),
        (worker.release.route, "loaded"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("POST", "/v1/models/unload", 404),
        ("POST", "/v1/responses", 404),
        ("GET", _CHAT, 405),
        ("POST", "/health", 405),
        ("DELETE", "/v1/models", 405),
    ],
)
async def test_nothing_else(worker: EmbeddedWorker, method: str, path: str, status: int) -> None:
    """Every other path is 404 and every other method 405."""
    async with _client(worker) as client:
        assert (await client.request(method, path)).status_code == status


_REFUSED: dict[str, tuple[Any, str]] = {
    "no stream": (_body(stream=False), "body-field"),
    "an unknown field": (_body(web_search_options={}), "body-field"),
    "a field that the engine ignores": (_body(seed=7), "body-field"),
    "no budget": (_body(max_tokens=None), "body-field"),
    "a budget over the engine's channel": (_body(max_tokens=10_000), "body-field"),
    "an unknown part": (_body(messages=[{"role": "user", "content": [{"type": "file", "file": "x"}]}]), "body-field"),
    "an unknown role": (_body(messages=[{"role": "tool", "content": "x"}]), "body-field"),
    "another model": (_body(model="gpt"), "model-unknown"),
    "a key that stands twice": ('{"model": "default", "model": "default"}', "body-json"),
    "a number that is not JSON": ('{"temperature": NaN}', "body-json"),
    "a lone surrogate": (_body(messages=[{"role": "user", "content": "\ud800"}]), "body-json"),
    "a number beyond floats": ('{"temperature": 1e999}', "body-json"),
    "no JSON": ("{", "body-json"),
    "a deep nest": ("[" * 100_000, "body-json"),
    "a web address as medium": (
        _body(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]),
        "staged-url",
    ),
}


@pytest.mark.parametrize(("body", "rule"), _REFUSED.values(), ids=_REFUSED.keys())
async def test_closed_body(worker: EmbeddedWorker, body: Any, rule: str) -> None:
    """A body that is not exactly a request of ours is refused with the rule's name."""
    content = body if isinstance(body, str) else json.dumps(body)
    async with _client(worker) as client:
        response = await client.post(_CHAT, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.json()["message"].startswith(f"{rule}: ")


async def test_body_bound(worker: EmbeddedWorker) -> None:
    """A body over the bound is refused before its end, also when its length was not announced, and cut off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(worker.url).port)
    head = f"POST {_CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    size = Limits().request_bytes + 1
    writer.write(f"{head}transfer-encoding: chunked\r\n\r\n{size:x}\r\n".encode() + b" " * size)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_content_type(worker: EmbeddedWorker) -> None:
    """What a page in a browser could send without asking first is refused."""
    async with _client(worker) as client:
        response = await client.post(_CHAT, content=json.dumps(_body()), headers={"content-type": "text/plain"})
    assert response.status_code == 415


async def test_foreign_host(worker: EmbeddedWorker) -> None:
    """A name that was rebound to loopback does not reach the engine."""
    async with _client(worker) as client:
        response = await client.get("/v1/models", headers={"host": "evil.example"})
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("given", "echoed"),
    [("a-b_c.1", True), ("x" * 128, True), ("x" * 129, False), ("a b", False)],
    ids=["short", "longest", "too long", "with a space"],
)
async def test_request_id(worker: EmbeddedWorker, given: str, echoed: bool) -> None:
    """A sane request id comes back, another is replaced."""
    async with _client(worker) as client:
        got = (await client.get("/health", headers={"x-request-id": given})).headers["x-request-id"]
    assert (got == given) is echoed
    assert got


async def test_no_delayed_acknowledgement(worker: EmbeddedWorker) -> None:
    """Small answers on a kept connection do not wait 40 ms for an acknowledgement (Nagle's algorithm is off)."""
    seconds: list[float] = []
    async with _client(worker) as client:
        for _ in range(40):
            before = time.perf_counter()
            await client.get("/health")
            seconds.append(time.perf_counter() - before)
    assert statistics.median(seconds) < 0.035


async def test_prompt_too_long(worker: EmbeddedWorker) -> None:
    """An error after the status is bare text as an event, then `[DONE]`."""
    async with _client(worker) as client:
        response = await client.post(_CHAT, json=_body(messages=[{"role": "user", "content": "a " * 5000}]))
    first, done = response.text.strip().split("\n\n")
    assert first.startswith("data: Prompt sequence length is greater than")
    assert done == "data: [DONE]"


async def test_lost_reader(worker: EmbeddedWorker) -> None:
    """Readers that leave in the middle hold nothing: the next question is answered rightly."""
    schema = {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 900,
        "x-guidance": {"whitespace_flexible": False},
    }
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    for _ in range(6):
        async with (
            _client(worker) as client,
            client.stream("POST", _CHAT, json=_body(max_tokens=3000, response_format=form)) as response,
        ):
            await anext(response.aiter_lines())
    golden = golden_cases()[0]
    async with asyncio.timeout(20):
        got = await ask(worker, question_of(golden.draw(), worker.staging_root))
    assert got.text == golden.answer


async def test_readiness(worker: EmbeddedWorker) -> None:
    """A live worker passes every gate, the last by answering a question whose answer is known, and leaves no file."""
    gates = await check_ready(worker.url, staging_root=worker.staging_root)
    assert [(gate.name, gate.verdict) for gate in gates] == [
        (name, Verdict.PASS) for name in ("tcp", "health", "models", "semantic")
    ]
    assert not list(worker.staging_root.glob("readiness-probe*"))


async def test_readiness_without_staging(worker: EmbeddedWorker) -> None:
    """Without a place for a picture the semantic gate is skipped, not passed."""
    gates = await check_ready(worker.url)
    assert gates[-1].verdict is Verdict.SKIP


async def test_readiness_of_another_route(worker: EmbeddedWorker) -> None:
    """A worker that does not serve the wanted route fails at the gate `models`."""
    gates = await check_serving(worker.url, route="another")
    assert [gate.verdict for gate in gates] == [Verdict.PASS, Verdict.PASS, Verdict.FAIL]


async def test_readiness_of_nobody() -> None:
    """Where nothing listens the first gate fails and the others are skipped."""
    gates = await check_ready("http://127.0.0.1:1")
    assert [gate.verdict for gate in gates] == [Verdict.FAIL, Verdict.SKIP, Verdict.SKIP, Verdict.SKIP]
