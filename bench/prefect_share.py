"""What Prefect costs a small run: the same bundle with and without it, in one session, on fresh homes.

    PYTHONPATH=. .venv/bin/python bench/prefect_share.py [--rounds 3]

Prints the median seconds of the whole command both ways and their ratio. Most of the difference is the start of
Prefect's server, which a configured one (PREFECT_API_URL) does not pay.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from settings.environment import minimal_environment

_ROOT = Path(__file__).resolve().parent.parent
_COMMAND = [sys.executable, "-P", "-m", "cli", "run", "examples/first/bundle.yaml", "--again", "--json"]


def seconds(home: Path, *options: str) -> float:
    """How long the command takes. Raises CalledProcessError unless every question is complete."""
    environment = minimal_environment({"PYTHONPATH": str(_ROOT), "MOSAIC_HOME": str(home)})
    begin = time.perf_counter()
    subprocess.run([*_COMMAND, *options], cwd=_ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> None:
    """Alternate the two ways, so that a busy machine is busy for both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    direct, prefect = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            direct.append(seconds(Path(folder) / "direct", "--direct"))
            prefect.append(seconds(Path(folder) / "prefect"))
    ours, theirs = statistics.median(direct), statistics.median(prefect)
    print(f"direct {ours:.2f} s, through Prefect {theirs:.2f} s: {theirs / ours:.1f} x over {rounds} rounds")


if __name__ == "__main__":
    main()
