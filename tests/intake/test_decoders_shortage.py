"""A process that has no descriptor left: items fail by a rule, none hangs, and the pool serves again afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import media_samples as samples

ROOT = Path(__file__).resolve().parents[2]
FREE = range(12)  # more than an item, a decoder and what decoders are forked from take together
OWNER = """
import asyncio, json, os, resource, signal, sys
from contracts.artifact import Modality
from contracts.derivation_spec import parse_derivation
from contracts.errors import EvidenceError
from contracts.limits import Limits
from intake.decoders import DecoderPool

victim, most = sys.argv[1], int(sys.argv[3])
medium = os.open(sys.argv[2], os.O_RDONLY)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

async def outcome(pool):
    try:
        async with asyncio.timeout(20):
            await pool.inspect(medium, modality=Modality.IMAGE, derive=parse_derivation("image:max_side=64"))
    except EvidenceError as error:
        return error.rule
    return "served"

async def main():
    outcomes = []
    async with DecoderPool(limits=Limits(), workers=1) as pool:
        for free in range(most):
            while await outcome(pool) != "served":  # what failed to start meanwhile is told once
                pass
            victims = {"decoder": pool.pids, "zygote": pool.zygote_pids, "none": ()}[victim]
            highest = max(int(name) for name in os.listdir("/proc/self/fd"))
            holes = [os.open("/dev/null", os.O_RDONLY)]
            while holes[-1] <= highest:
                holes.append(os.open("/dev/null", os.O_RDONLY))
            resource.setrlimit(resource.RLIMIT_NOFILE, (holes[-1] + 1 + free, hard))
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            outcomes.append([await outcome(pool) for _ in range(4)])
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            for hole in holes:
                os.close(hole)
        while await outcome(pool) != "served":
            pass
    print(json.dumps(outcomes))

asyncio.run(main())
"""


@pytest.mark.parametrize("victim", ["none", "decoder", "zygote"])
def test_a_shortage_of_descriptors_passes(victim: str, tmp_path: Path) -> None:
    """With 0 to 11 left, and a decoder or the zygote to be replaced: an answer each time, then all is well."""
    medium = tmp_path / "medium"
    medium.write_bytes(samples.encode(samples.picture(), "PNG"))
    command = [sys.executable, "-c", OWNER, victim, str(medium), str(len(FREE))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    outcomes = [set(each) for each in json.loads(ran.stdout)]
    assert outcomes[0] == {"medium-unreadable"}
    assert set.union(*outcomes) <= {"served", "medium-unreadable", "decoder-start", "decoder-died"}
    assert "served" in outcomes[-1]
