"""The owner of a pool is killed at any moment of its work: nothing that it started goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import media_samples as samples

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import asyncio, os, sys
from contracts.artifact import Modality
from contracts.errors import EvidenceError
from contracts.limits import Limits
from intake.decoders import DecoderPool

strict, *media = sys.argv[1:]

async def one(pool, medium):
    print("asked", flush=True)
    try:
        await pool.inspect(medium, modality=Modality.IMAGE)
    except EvidenceError:
        pass
    print("answered", flush=True)

async def main():
    descriptors = [os.open(path, os.O_RDONLY) for path in media]
    print("starting", flush=True)
    limits = Limits().changed({"animation_pixels": 1e12})
    while True:
        async with DecoderPool(limits=limits, workers=2, recycle_after=3, strict=strict == "strict") as pool:
            print("started", flush=True)
            spinning = asyncio.create_task(one(pool, descriptors[-1]))
            for medium in descriptors[:-1] * 2:
                await one(pool, medium)
            print("closing", flush=True)
        await spinning

asyncio.run(main())
"""
KILLER = """
import json, os, subprocess, sys, time
from contextlib import suppress
from sandbox.descendants import adopt_orphans, children

owner, strict, lines, *media = sys.argv[1:]
adopt_orphans()
left = []
for said in range(int(lines)):
    process = subprocess.Popen([sys.executable, "-c", owner, strict, *media], stdout=subprocess.PIPE)
    for _ in range(said):
        assert process.stdout.readline()
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while (living := children()) and time.monotonic() < end:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    left.append(len(living))
print(json.dumps(left))
"""


@pytest.mark.parametrize("strict", ["shared", "strict"], ids=["shared decoders", "one for each item"])
def test_nothing_survives_an_owner_killed_at_any_moment(strict: str, tmp_path: Path) -> None:
    """Killed after each of its first 18 steps: starting, asking, recycling, replacing after a refusal, closing."""
    picture = samples.encode(samples.picture(), "PNG")
    media = {
        "good": picture,
        "damaged": picture[:-20],
        "script": b"#EXTM3U\n",
        "spinning": samples.gif_bomb(frames=3_000),
    }
    for name, data in media.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", KILLER, OWNER, strict, "18", *(str(tmp_path / name) for name in media)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [0] * 18
