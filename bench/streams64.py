"""64 answers at once from a bare server in its own process: our client with every check against aiohttp with none.

    PYTHONPATH=. .venv-test/bin/python bench/streams64.py [--streams 64] [--requests 8] [--gap-ms 1] [--rounds 3]

Every answer is 64 chunks, a gap between two, then finish with usage and `[DONE]`. Each side runs in a fresh process,
in turns, so that a busy machine is busy for both. Printed: requests per second, CPU per event of the client's process,
how much memory an open stream takes, and the ratios. Goals: at least 0.8 of aiohttp's requests, at most 3 times its
CPU per event. aiohttp here splits lines and decodes JSON with orjson; it does not notice a broken stream.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import profile
from contracts.question import Question, TextPart
from contracts.request import build_request
from inference.pool import WorkerPool
from settings.environment import minimal_environment

_ROOT = Path(__file__).resolve().parent.parent
_ROUTE = "bench"
_CHUNKS = 64
_EVENTS = _CHUNKS + 2  # and the last chunk and [DONE]
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def _event(text: str, finish: str | None, usage: dict[str, int] | None) -> bytes:
    delta = {"content": text, "role": "assistant", "tool_calls": None}
    document = {
        "id": "1",
        "choices": [{"finish_reason": finish, "index": 0, "delta": delta, "logprobs": None}],
        "created": 1_780_322_518,
        "model": _ROUTE,
        "system_fingerprint": "local",
        "object": "chat.completion.chunk",
        "usage": usage,
    }
    return _framed(b"data: " + orjson.dumps(document) + b"\n\n")


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_CHUNK = _event(" evidence", None, None)
_END = (
    _event("", "stop", {"completion_tokens": _CHUNKS, "prompt_tokens": 5, "total_tokens": _CHUNKS + 5})
    + _framed(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)


class _Answering(asyncio.Protocol):
    """One connection of the server: a request's end starts the answer, a timer sends the next chunk."""

    gap_s = 0.001

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # TCP's
        self._transport = transport
        self._seen = b""

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        names = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if end and len(body) >= int(names.get(b"content-length", b"0")):
            self._seen = b""
            self._send(_HEAD + b"x-request-id: " + names.get(b"x-request-id", b"") + b"\r\n\r\n")
            self._loop = asyncio.get_running_loop()
            self._next = self._loop.time()
            self._chunk(0)

    def _chunk(self, index: int) -> None:
        if index == _CHUNKS:
            self._send(_END)
            return
        self._send(_CHUNK)
        self._next += self.gap_s
        self._loop.call_at(self._next, self._chunk, index + 1)

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


async def serve(gap_s: float) -> None:
    """Print the port, answer until stdin ends, which it does when the parent is gone."""
    _Answering.gap_s = gap_s
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Answering, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


async def ours(url: str, streams: int, requests: int) -> None:
    """The pool with a slot per stream; every outcome is checked."""
    limits, engine = Limits(), profile("0.9.5")
    question = Question((TextPart("hello"),), max_output_tokens=_CHUNKS)
    request = build_request(question, profile=engine, route=_ROUTE, staged_url=lambda _: "", limits=limits)

    async def one(pool: WorkerPool, name: str) -> None:
        for index in range(requests):
            async with pool.slot() as client:
                got = await client.submit(request, request_id=f"{name}-{index}")
            if got.outcome is not Outcome.COMPLETE:
                raise SystemExit(f"not complete: {got.rule}: {got.reason}")

    async with WorkerPool(url, profile=engine, route=_ROUTE, limits=limits, slots=streams) as pool:
        await asyncio.gather(*(one(pool, str(index)) for index in range(streams)))


async def aiohttp(url: str, streams: int, requests: int) -> None:
    """The usual loop over lines, which takes what comes."""
    import aiohttp

    async def one(session: aiohttp.ClientSession) -> None:
        for _ in range(requests):
            seen = 0
            body = {"model": _ROUTE, "messages": [{"role": "user", "content": "hello"}], "stream": True}
            async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                async for line in answer.content:
                    if line.startswith(b"data: ") and (data := line[6:].strip()) != b"[DONE]":
                        orjson.loads(data)
                        seen += 1
            if seen != _EVENTS - 1:
                raise SystemExit(f"{seen} events")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=streams)) as session:
        await asyncio.gather(*(one(session) for _ in range(streams)))


_SIDES: dict[str, Callable[[str, int, int], Awaitable[None]]] = {"ours": ours, "aiohttp": aiohttp}


async def client(side: str, url: str, streams: int, requests: int) -> None:
    """Warm up with one request, then measure; print the figures as JSON."""
    await _SIDES[side](url, 1, 1)
    memory, begin, cpu = _resident_peak(), time.perf_counter(), time.process_time()
    await _SIDES[side](url, streams, requests)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    done = streams * requests
    figures = {
        "requests": done / seconds,
        "cpu": cpu / (done * _EVENTS) * 1e6,
        "memory": (_resident_peak() - memory) / streams,
    }
    print(json.dumps(figures))


def _resident_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB


def _command(*words: object) -> list[str]:
    return [sys.executable, __file__, *map(str, words)]


def compare(streams: int, requests: int, gap_ms: float, rounds: int) -> None:
    """Both sides in turns against one server; medians and ratios."""
    environment = minimal_environment({"PYTHONPATH": str(_ROOT)})
    server = subprocess.Popen(
        _command("--serve", gap_ms), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with server:
        assert server.stdout
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        figures: dict[str, list[dict[str, float]]] = {side: [] for side in _SIDES}
        for _ in range(rounds):
            for side, seen in figures.items():
                command = _command("--side", side, "--url", url, "--streams", streams, "--requests", requests)
                seen.append(json.loads(subprocess.check_output(command, env=environment)))
    names = ("requests", "cpu", "memory")
    median = {
        side: {name: statistics.median(each[name] for each in seen) for name in names} for side, seen in figures.items()
    }
    for side, each in median.items():
        print(
            f"{side:8} {each['requests']:7.0f} requests/s  {each['cpu']:5.1f} us of CPU per event  "
            f"{each['memory']:5.0f} KiB per open stream"
        )
    mine, other = median["ours"], median["aiohttp"]
    print(
        f"ours / aiohttp: {mine['requests'] / other['requests']:.2f} of the requests/s, "
        f"{mine['cpu'] / other['cpu']:.2f} x the CPU per event"
    )


def main() -> None:
    """One entry for the comparison and for the processes that it starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=8, help="per stream")
    parser.add_argument("--gap-ms", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=_SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve / 1000))
    elif arguments.side:
        asyncio.run(client(arguments.side, arguments.url, arguments.streams, arguments.requests))
    else:
        compare(arguments.streams, arguments.requests, arguments.gap_ms, arguments.rounds)


if __name__ == "__main__":
    main()
