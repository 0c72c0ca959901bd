"""The confined decoders against the same decoding in this process, in one run.

    PYTHONPATH=. .venv-test/bin/python bench/decode.py [--items 512] [--rounds 3] [--many 10000]

For a PNG of 64 x 64, a JPEG of 1024 x 768 and 2 s of WAV: what an item costs through the pool over the functions that
its children call, called here, one item at a time: at the median, and on the mean of all, replacing workers included
(goal: under 1 ms). Sealing and hashing count as the pool's. Then images per second of two workers against a bare Pillow
loop; how long after its wall limit a spinning item's process is gone (goal: 100 ms); how long a start takes; and what
many items leave of memory, descriptors and processes. Sides take turns, so that a busy machine is busy for both;
medians of the rounds are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import select
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import decode
from intake.decoders import DecoderPool
from tests import media_samples as samples

_WORKERS, _AT_ONCE, _EARLY = 2, 8, 1_000
_WALL_S = 0.25
_SPINNING = samples.gif_bomb(frames=3_000)
_SPUN = Limits().changed({"animation_pixels": 1e12, "decode_wall_s": _WALL_S})
_FILES = {
    "PNG 64 x 64": (Modality.IMAGE, samples.encode(samples.picture((64, 64)), "PNG")),
    "JPEG 1024 x 768": (Modality.IMAGE, samples.encode(samples.noise((1024, 768)), "JPEG")),
    "WAV of 2 s": (Modality.AUDIO, samples.sound("wav", 2.0)),
}


def memory_file(data: bytes) -> int:
    """A descriptor whose file holds `data`."""
    descriptor = os.memfd_create("medium", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    return descriptor


def in_process(items: int) -> Callable[[Modality, int], list[float]]:
    """A function that decodes a descriptor `items` times with the children's functions; seconds of each."""
    limits = Limits()
    magic = decode.prepare(limits)

    def run(modality: Modality, descriptor: int) -> list[float]:
        request = {"modality": modality.value, "derive": None}
        took = []
        for _ in range(items):
            begin = time.perf_counter()
            reply = decode.verdict(request, [descriptor], limits, magic)
            took.append(time.perf_counter() - begin)
            assert "findings" in reply, reply
        return took

    return run


async def through(pool: DecoderPool, modality: Modality, descriptor: int, items: int) -> list[float]:
    """The same through the pool, one at a time; seconds of each."""
    took = []
    for _ in range(items):
        begin = time.perf_counter()
        await pool.inspect(descriptor, modality=modality)
        took.append(time.perf_counter() - begin)
    return took


async def at_once(pool: DecoderPool, descriptor: int, items: int) -> float:
    """Images per second, with as many waiting as keep the workers busy."""
    left = iter(range(items))

    async def one_after_another() -> None:
        for _ in left:
            await pool.inspect(descriptor, modality=Modality.IMAGE)

    begin = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(_AT_ONCE)))
    return items / (time.perf_counter() - begin)


def bare_loop(data: bytes, items: int) -> float:
    """Images per second of Pillow alone."""
    begin = time.perf_counter()
    for _ in range(items):
        with Image.open(io.BytesIO(data)) as image:
            image.load()
    return items / (time.perf_counter() - begin)


async def print_overhead(items: int, rounds: int, strict: bool) -> None:
    """What an item costs over decoding it here, by file."""
    here = in_process(items)
    for name, (modality, data) in _FILES.items():
        descriptor, seen = memory_file(data), list[tuple[float, ...]]()
        async with _pool(strict) as pool:
            for _ in range(rounds):
                bare, ours = here(modality, descriptor), await through(pool, modality, descriptor, items)
                seen.append((*_middle_and_mean(bare), *_middle_and_mean(ours)))
        os.close(descriptor)
        bare_p50, bare_mean, p50, mean = (statistics.median(column) * 1e3 for column in zip(*seen, strict=True))
        print(
            f"{name:16} here p50 {bare_p50:6.2f} mean {bare_mean:6.2f}, pool p50 {p50:6.2f} mean {mean:6.2f} ms:",
            end=" ",
        )
        print(f"{p50 - bare_p50:5.2f} ms over at p50, {mean - bare_mean:5.2f} ms on the mean")


def _middle_and_mean(values: Iterable[float]) -> tuple[float, float]:
    kept = list(values)
    return statistics.median(kept), statistics.fmean(kept)


async def print_rates(items: int, rounds: int, strict: bool) -> None:
    """Images per second of two workers, a bare Pillow loop's, and the ratio."""
    for name, (modality, data) in _FILES.items():
        if modality is not Modality.IMAGE:
            continue
        descriptor, seen = memory_file(data), list[tuple[float, float]]()
        async with _pool(strict) as pool:
            for _ in range(rounds):
                seen.append((bare_loop(data, items), await at_once(pool, descriptor, items)))
        os.close(descriptor)
        bare, ours = (statistics.median(column) for column in zip(*seen, strict=True))
        print(f"{name:16} {ours:6.0f} images/s with {_WORKERS} workers, {bare:6.0f} bare: {ours / bare:.2f} x")


async def print_deaths(rounds: int, strict: bool) -> None:
    """How long after the wall limit the process that spins is gone."""
    descriptor, late = memory_file(_SPINNING), []
    async with _pool(strict, limits=_SPUN) as pool:
        for _ in range(5 * rounds):
            processes = [os.pidfd_open(pid) for pid in pool.pids]
            begin = time.perf_counter()
            with suppress(MediaRejected):  # by the wall limit: nothing else takes so long
                await pool.inspect(descriptor, modality=Modality.IMAGE)
            late.append((time.perf_counter() - begin - _WALL_S) * 1e3)
            gone = [process for process in processes if select.select([process], [], [], 0)[0]]
            assert len(gone) == 1, "the one that spun is not gone"
            for process in processes:
                os.close(process)
    os.close(descriptor)
    print(f"a spinning item is dead {statistics.median(late):.0f} ms after its limit, at most {max(late):.0f} ms")


async def print_starts(rounds: int, strict: bool) -> None:
    """From nothing to the first worker, and the layers around it."""
    took, descriptor = [], memory_file(_FILES["PNG 64 x 64"][1])
    for _ in range(rounds):
        begin = time.perf_counter()
        async with _pool(strict) as pool:
            took.append(time.perf_counter() - begin)
            layers = (await pool.inspect(descriptor, modality=Modality.IMAGE)).layers
    os.close(descriptor)
    print(f"start {statistics.median(took):.2f} s; layers: {', '.join(layers)}")


async def print_many(items: int, strict: bool) -> None:
    """Resident memory, descriptors and processes after the first items and after all."""
    descriptor = memory_file(_FILES["PNG 64 x 64"][1])
    async with _pool(strict) as pool:
        await at_once(pool, descriptor, _EARLY)
        early, begin = _footprint(), time.perf_counter()
        await at_once(pool, descriptor, items - _EARLY)
        print(f"{items} items, {(time.perf_counter() - begin) / (items - _EARLY) * 1e3:.2f} ms each:", end=" ")
        late = _footprint()
    os.close(descriptor)
    print(", ".join(f"{name} {early[name]} then {late[name]}" for name in early))


def _footprint() -> dict[str, int]:
    ours = _family(os.getpid())
    return {
        "MiB resident here": _resident_kib(os.getpid()) >> 10,
        "in children": sum(_resident_kib(pid) for pid in ours) >> 10,
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "processes": len(ours),
    }


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in children for found in (int(child), *_family(int(child)))]


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next((line.split()[1] for line in lines if line.startswith("VmRSS")), "0"))


def _pool(strict: bool, limits: Limits | None = None) -> DecoderPool:
    options: dict[str, Any] = {"strict": True} if strict else {}
    return DecoderPool(limits=limits or Limits(), workers=_WORKERS, stderr=sys.stderr.fileno(), **options)


async def measure(arguments: argparse.Namespace) -> None:
    """Everything, for workers that serve their share and then for one fork per item."""
    for strict in (False, True):
        print("\none fork per item" if strict else "workers of 64 items")
        await print_starts(arguments.rounds, strict)
        await print_overhead(arguments.items, arguments.rounds, strict)
        await print_rates(arguments.items, arguments.rounds, strict)
        await print_deaths(arguments.rounds, strict)
        await print_many(arguments.many, strict)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=10_000)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
