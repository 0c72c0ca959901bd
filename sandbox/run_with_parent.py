"""Script that runs a foreign program which dies with us.

`python -I run_with_parent.py PARENT_PID PROGRAM [ARGUMENT…]`
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox.parent_death import die_with_parent


def main() -> None:
    parent, program, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    os.execvp(program, [program, *arguments])  # noqa: S606  (exec keeps PDEATHSIG; a shell would not)


if __name__ == "__main__":
    main()
