"""When a process started: with its number, what tells it from every other that ever had that number."""

from __future__ import annotations

from pathlib import Path

_DEAD_STATES = frozenset({"Z", "X", "x"})
_START_TIME_AFTER_NAME = 19  # field 22; the fields behind the name begin with field 3


def process_start(pid: int) -> int:
    """The start time of a running process in clock ticks since boot (field 22 of proc_pid_stat(5)); 0 if there is
    none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return 0 if fields[0] in _DEAD_STATES else int(fields[_START_TIME_AFTER_NAME])
