"""What strictness costs: one answer stream in memory, read in 64 KiB pieces, by our machine and by looser readers.

    PYTHONPATH=. .venv/bin/python bench/stream.py [--events 50000] [--rounds 5]

The anchor splits at blank lines and decodes with orjson, nothing else. Ours makes every check and the sha256. The
line reader is what `httpx-sse` does (universal line ends, field by field) with the standard library's json; `openai`
is measured where it is installed. Rounds alternate, so that a busy machine is busy for all; goal: ours at least
0.4 of the anchor.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from io import BytesIO

import orjson

from contracts.completion import check_stream
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import profile

_READ = 64 << 10
_ROUTE = "/srv/models/bench"
_WORDS = {"ASCII": " evidence", "other text": " größe-証拠"}


def stream_of(events: int, word: str) -> bytes:
    """A whole answer of `events` chunks, the last with finish reason and usage, and `[DONE]`."""
    counts = {"completion_tokens": events, "prompt_tokens": 5, "total_tokens": events + 5}
    first, last = _chunk(word, None, None), _chunk("", "stop", counts)
    return first * (events - 1) + last + b"data: [DONE]\n\n"


def _chunk(text: str, finish: str | None, usage: dict[str, int] | None) -> bytes:
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
    return b"data: " + orjson.dumps(document) + b"\n\n"


def _pieces(data: bytes) -> list[bytes]:
    return [data[start : start + _READ] for start in range(0, len(data), _READ)]


def ours(pieces: list[bytes], events: int) -> int:
    """The completion machine, its verdict checked."""
    limits = Limits().changed({"stream_wire_bytes": 1 << 30, "answer_bytes": 1 << 30})
    got = check_stream(pieces, profile=profile("0.9.5"), route=_ROUTE, max_tokens=events, limits=limits)
    if got.outcome is not Outcome.COMPLETE:
        raise SystemExit(f"not complete: {got.rule}")
    return got.events - 1


def anchor(pieces: list[bytes], _events: int) -> int:
    """Split at blank lines, decode, count."""
    seen, rest = 0, b""
    for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            if block != b"data: [DONE]":
                orjson.loads(block[6:])
                seen += 1
    return seen


def line_reader(pieces: list[bytes], _events: int) -> int:
    """Universal line ends, one field after the other, json of the standard library."""
    seen, unfinished = 0, ""
    data: list[str] = []
    for piece in pieces:
        *lines, unfinished = (unfinished + piece.decode(errors="replace")).split("\n")
        for line in lines:
            if line:
                name, _, value = line.rstrip("\r").partition(":")
                if name == "data":
                    data.append(value.removeprefix(" "))
            elif data:
                text, data = "\n".join(data), []
                if text != "[DONE]":
                    json.loads(text)
                    seen += 1
    return seen


def openai_reader(pieces: list[bytes], _events: int) -> int:
    """The official client's stream, over a transport that has the bytes already."""
    httpx, openai = importlib.import_module("httpx"), importlib.import_module("openai")
    body = BytesIO(b"".join(pieces))
    headers = {"content-type": "text/event-stream"}
    answer = httpx.Response(200, headers=headers, content=iter(lambda: body.read(_READ), b""))
    transport = httpx.MockTransport(lambda _: answer)
    client = openai.OpenAI(api_key="none", base_url="http://bench/v1", http_client=httpx.Client(transport=transport))
    stream = client.chat.completions.create(model=_ROUTE, messages=[{"role": "user", "content": "x"}], stream=True)
    return sum(1 for _ in stream)


def measure(read: Callable[[list[bytes], int], int], pieces: list[bytes], events: int) -> float:
    """Events per second of CPU time of this process."""
    begin = time.process_time()
    if read(pieces, events) != events:
        raise SystemExit(f"{read.__name__} lost events")
    return events / (time.process_time() - begin)


def main() -> None:
    """Both kinds of text, all readers, medians and their ratio to the anchor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    readers: list[Callable[[list[bytes], int], int]] = [anchor, ours, line_reader]
    for kind, word in _WORDS.items():
        pieces = _pieces(stream_of(arguments.events, word))
        speeds: dict[str, list[float]] = {}
        for _ in range(arguments.rounds):
            for read in readers:
                speeds.setdefault(read.__name__, []).append(measure(read, pieces, arguments.events))
        if importlib.util.find_spec("openai"):
            few = arguments.events // 10
            importlib.import_module("openai")
            speeds["openai_reader"] = [measure(openai_reader, _pieces(stream_of(few, word)), few)]
        base = statistics.median(speeds["anchor"])
        for name, rates in speeds.items():
            rate = statistics.median(rates)
            print(f"{kind:10}  {name:13}  {rate:9,.0f} events/s of CPU  {rate / base:.3f} of the anchor")


if __name__ == "__main__":
    main()
