"""Script that runs a program and, when it ends however it ends, ends everything that it left.

`python -I run_and_sweep.py PROGRAM [ARGUMENT…]`: this process's number is the program's last argument, so that it can
ask to be told when this process ends first (`die_with_parent`). SIGTERM and SIGINT go to the program. The exit code is
the program's, 128 + N where signal N ended it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox.descendants import adopt_orphans, end_all


def main() -> int:
    adopt_orphans()
    program = subprocess.Popen([*sys.argv[1:], str(os.getpid())], stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda told, _frame: program.send_signal(told))
    code = program.wait()
    end_all()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
