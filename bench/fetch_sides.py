"""The clients that bench/fetch.py compares. Each fetches a list of URLs, so many at once, and tells how it went.

Every client but curl hashes what it gets, and each but those that say so writes it into an unnamed file, as the
pipeline does. None but ours checks where it connects, what the server may send, or how fast it must be.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import resource
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from contracts.network_policy import NetworkPolicy
from intake.fetcher import Fetcher
from intake.quarantine import open_quarantine

LOOPBACK = NetworkPolicy("bench-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
_MIB = 1 << 20
_READ_BYTES = 1 << 16
_EARLY = 500  # fetches after which memory is read the first time


@dataclass(slots=True)
class Load:
    """What to fetch: URLs of one size, so many at once, into files in `folder`."""

    urls: Sequence[str]
    size_bytes: int
    at_once: int
    folder: Path


@dataclass(slots=True)
class Run:
    """How one load went. CPU is of all processes of the client; memory is KiB at its peak, by process."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    size_bytes: int = 0
    memory_early: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)


class _Watch:
    """Time, CPU and memory of the processes of one client, from its making on."""

    def __init__(self, load: Load, child: int | None = None) -> None:
        self._load = load
        self._children = {} if child is None else _family(child)
        self._done = 0
        self._run = Run()
        self._begin, self._cpu = time.perf_counter(), self._cpu_now()

    def had(self, size_bytes: int) -> None:
        """One fetch ended with so many bytes."""
        if size_bytes != self._load.size_bytes:
            raise SystemExit(f"expected {self._load.size_bytes} bytes, got {size_bytes}")
        self._done += 1
        if self._done == _EARLY:
            self._run.memory_early = self._peaks()

    def end(self) -> Run:
        """The figures. Exits where a fetch is missing."""
        if self._done != len(self._load.urls):
            raise SystemExit(f"expected {len(self._load.urls)} fetches, got {self._done}")
        self._run.seconds = time.perf_counter() - self._begin
        self._run.cpu_s = self._cpu_now() - self._cpu
        self._run.size_bytes = self._done * self._load.size_bytes
        self._run.memory = self._peaks()
        return self._run

    def _cpu_now(self) -> float:
        # clock_getcpuclockid(3): a process's CPU clock is ~pid << 3 | CPUCLOCK_SCHED. Reaped children count too.
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        running = sum(time.clock_gettime(~pid << 3 | 2) for pid in self._children.values())
        return time.process_time() + running + reaped.ru_utime + reaped.ru_stime

    def _peaks(self) -> dict[str, int]:
        own = {"own": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
        return own | {name: _peak(pid) for name, pid in self._children.items()}


def _family(pid: int, name: str = "child") -> dict[str, int]:
    """A process and what it started, as a child does that has namespaces of its own, by name."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    family = {name: pid}
    for each in started:
        family |= _family(int(each), f"{name}'s")
    return family


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


class _Sink:
    """Hashes, and writes into an unnamed file unless told not to."""

    def __init__(self, load: Load, *, writes: bool = True) -> None:
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = open_quarantine(load.folder) if writes else None
        self.size_bytes = 0

    def take(self, data: bytes) -> None:
        self._hash.update(data)
        self.size_bytes += len(data)
        if self._file is not None:
            self._file.write(data)

    def close(self) -> int:
        self._hash.hexdigest()
        if self._file is not None:
            self._file.close()
        return self.size_bytes


async def _spread(load: Load, watch: _Watch, one: Callable[[str], Awaitable[int]]) -> Run:
    """Run `one` for each URL, `at_once` at a time."""
    waiting = iter(load.urls)

    async def take_turns() -> None:
        for url in waiting:
            watch.had(await one(url))

    await asyncio.gather(*(take_turns() for _ in range(load.at_once)))
    return watch.end()


async def ours(load: Load) -> Run:
    """The fetcher as it is: confined child, policy, record, digest measured by the parent."""
    async with Fetcher() as fetcher:

        async def one(url: str) -> int:
            with open_quarantine(load.folder) as file:
                limit = load.size_bytes
                record = await fetcher.fetch(url, policy=LOOPBACK, max_bytes=limit, into=file.fileno())
                return record.had()[1]

        return await _spread(load, _Watch(load, fetcher.pid), one)


async def aiohttp(load: Load, *, writes: bool = True) -> Run:
    """The anchor: a loop that only streams and hashes."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=load.at_once)) as session:

        async def one(url: str) -> int:
            sink = _Sink(load, writes=writes)
            async with session.get(url) as answer:
                async for data in answer.content.iter_any():
                    sink.take(data)
            return sink.close()

        return await _spread(load, _Watch(load), one)


async def aiohttp_unwritten(load: Load) -> Run:
    """The anchor without the file."""
    return await aiohttp(load, writes=False)


async def httpx(load: Load) -> Run:
    """One shared asynchronous client."""
    import httpx

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=load.at_once)) as client:

        async def one(url: str) -> int:
            sink = _Sink(load)
            async with client.stream("GET", url) as answer:
                async for data in answer.aiter_raw():
                    sink.take(data)
            return sink.close()

        return await _spread(load, _Watch(load), one)


async def requests(load: Load) -> Run:
    """A session in each of the threads."""
    import requests

    watch = _Watch(load)

    def fetch(urls: Sequence[str]) -> None:
        with requests.Session() as session:
            for url in urls:
                sink = _Sink(load)
                with session.get(url, stream=True) as answer:
                    for data in answer.iter_content(_READ_BYTES):
                        sink.take(data)
                watch.had(sink.close())

    with ThreadPoolExecutor(load.at_once) as threads:
        list(threads.map(fetch, (load.urls[start :: load.at_once] for start in range(load.at_once))))
    return watch.end()


async def curl(load: Load) -> Run:
    """The program, which neither hashes nor keeps."""
    watch = _Watch(load)
    settings = "".join(f'url = "{url}"\noutput = /dev/null\n' for url in load.urls)
    command = ["curl", "-q", "-s", "-f", "-Z", "--parallel-max", str(load.at_once), "-w", "%{size_download}\\n"]
    for line in (await asyncio.to_thread(_program, [*command, "-K", "-"], settings)).split():
        watch.had(int(line))
    return watch.end()


async def img2dataset(load: Load) -> Run:
    """The program, which decodes the images and encodes them again."""
    watch = _Watch(load)
    listed, out = load.folder / "urls.txt", load.folder / "img2dataset"
    listed.write_text("".join(f"{url}\n" for url in load.urls))
    shutil.rmtree(out, ignore_errors=True)
    command = ["img2dataset", f"--url_list={listed}", f"--output_folder={out}", f"--thread_count={load.at_once}"]
    options = ["--processes_count=1", "--resize_mode=no", "--compute_hash=sha256", "--enable_wandb=False"]
    await asyncio.to_thread(_program, [*command, *options], "")
    for _ in out.glob("*/*.jpg"):
        watch.had(load.size_bytes)
    return watch.end()


def _program(command: Sequence[str], told: str) -> str:
    return subprocess.run(command, input=told, check=True, capture_output=True, text=True).stdout


SIDES: Mapping[str, Callable[[Load], Coroutine[None, None, Run]]] = {
    "ours": ours,
    "aiohttp": aiohttp,
    "aiohttp-unwritten": aiohttp_unwritten,
    "httpx": httpx,
    "requests": requests,
    "curl": curl,
    "img2dataset": img2dataset,
}


def is_here(side: str) -> bool:
    """Whether the client is installed."""
    module = side.partition("-")[0]
    return side == "ours" or shutil.which(side) is not None or importlib.util.find_spec(module) is not None
