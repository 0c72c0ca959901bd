"""Becoming another user for a test, also where the interpreter lies in a folder that only root may pass."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USER = 1000


def unprivileged(scratch: Path) -> list[str]:
    """A command that runs what follows as user 1000, in mounts that let it reach the interpreter and this tree."""
    if os.getuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("needs root, unshare and setpriv to become another user")
    needed = {Path(sys.prefix), Path(sys.base_prefix), ROOT}
    needed = {place for place in needed if not any(place != other and place.is_relative_to(other) for other in needed)}
    steps = ["set -e"]
    for closed in {closed for place in needed if (closed := _first_closed(place))}:
        places = [place for place in needed if place.is_relative_to(closed)]
        for number, place in enumerate(places):
            (scratch / str(number)).mkdir()
            steps.append(f"mount --bind '{place}' '{scratch / str(number)}'")
        steps.append(f"mount -t tmpfs -o mode=755 none '{closed}'")
        for number, place in enumerate(places):
            steps.append(f"mkdir -p '{place}'; mount --move '{scratch / str(number)}' '{place}'")
    steps.append(f'exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"')
    return ["unshare", "--mount", "sh", "-c", "; ".join(steps), "sh"]


def _first_closed(place: Path) -> Path | None:
    """The outermost folder above `place` that others may not pass."""
    return next((path for path in reversed((place, *place.parents)) if not path.stat().st_mode & 1), None)
