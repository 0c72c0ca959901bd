"""The HTTP surface of the embedded worker: `/health`, `/v1/models`, `/v1/chat/completions`, and nothing else.

The wire is that of `mistralrs serve` 0.9.5 as our profile knows it. Errors before the stream are
`{"message": "<rule>: <reason>"}`.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contracts.errors import EngineError, EvidenceError, InputError
from serving.embedded.chat_body import ChatBody, parse_body
from serving.embedded.engine import Engine
from serving.embedded.event_stream import EventStream

OPEN_REQUESTS = 64  # each holds a thread; the pool admits far fewer

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


def build_app(engine: Engine, *, request_bytes: int) -> ASGIApp:
    """The application around a loaded engine; bodies over `request_bytes` are refused while they arrive."""
    surface = _Surface(engine, request_bytes, ThreadPoolExecutor(OPEN_REQUESTS, "chunks"), int(time.time()))
    return Starlette(
        routes=[
            Route("/health", surface.health),
            Route("/v1/models", surface.models),
            Route("/v1/chat/completions", surface.chat, methods=["POST"]),
        ],
        middleware=[
            Middleware(RequestId),
            # A page in somebody's browser that rebinds its name to loopback is not a client.
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
        ],
    )


@dataclass(frozen=True, slots=True)
class _Surface:
    engine: Engine
    request_bytes: int
    executor: ThreadPoolExecutor
    created: int

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("OK")

    async def models(self, _request: Request) -> Response:
        shared = {"object": "model", "created": self.created, "owned_by": "local"}
        loaded = {"id": self.engine.route, **shared, "status": "loaded"}
        return JSONResponse({"object": "list", "data": [{"id": "default", **shared}, loaded]})

    async def chat(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refusal(415, InputError("content-type", "expected application/json"))
        try:
            data = await self._bounded_body(request)
        except ClientDisconnect:
            return Response(status_code=400)
        if data is None:
            refusal = _refusal(413, InputError("body-size", f"the body is over {self.request_bytes} bytes"))
            refusal.headers["connection"] = "close"  # else the server would read and drop the rest, however long
            return refusal
        try:
            body = parse_body(data)
            self._check_model(body)
            chunks = await asyncio.get_running_loop().run_in_executor(self.executor, self.engine.start, body)
        except EngineError as error:
            return _refusal(500, error)
        except EvidenceError as error:
            return _refusal(422, error)
        return EventStream(self.engine, chunks, self.executor)  # type: ignore[return-value]  # an ASGI app is enough

    async def _bounded_body(self, request: Request) -> bytes | None:
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > self.request_bytes:
                return None
        return bytes(data)

    def _check_model(self, body: ChatBody) -> None:
        if body.model not in {"default", self.engine.route}:
            raise InputError("model-unknown", f"this worker serves {self.engine.route}")


def _refusal(status: int, error: EvidenceError) -> Response:
    return JSONResponse({"message": str(error)}, status)


class RequestId:
    """Echoes a sane `x-request-id` (1 to 128 visible ASCII characters), else mints one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"x-request-id"]
        sane = len(given) == 1 and _REQUEST_ID.fullmatch(given[0])
        request_id = given[0] if sane else str(uuid.uuid4()).encode()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)
