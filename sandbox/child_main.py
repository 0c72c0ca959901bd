"""Script that every child of ours starts as: `python -I child_main.py PARENT_PID CHANNEL_FD PLACES MODULE [ARGUMENT…]`.

Isolated mode leaves the repository off `sys.path`, so this finds it from its own place. PLACES are the paths that it
shall see, one a line; none: all. Then `MODULE.main(channel, arguments)` runs.
"""

from __future__ import annotations

import importlib
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox.namespaces import enter
from sandbox.parent_death import die_with_parent


def main() -> None:
    parent, descriptor, places, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    if places:
        enter(places.splitlines(), channel=int(descriptor))
    channel = socket.socket(fileno=int(descriptor))
    importlib.import_module(module).main(channel, arguments)


if __name__ == "__main__":
    main()
