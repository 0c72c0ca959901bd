"""How far reading the store is, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.output import say
from contracts.ports import StoredBlob

_TELL_AFTER_S = 2.0


@contextmanager
def read_progress(total_bytes: int, *, quiet: bool) -> Iterator[Callable[[StoredBlob], None] | None]:
    """What hears of each blob that was read: a bar on a terminal, elsewhere a line per tenth once it takes long,
    nothing when `quiet`."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar(total_bytes) as tell:
            yield tell
    else:
        yield _lines(total_bytes)


@contextmanager
def _bar(total_bytes: int) -> Iterator[Callable[[StoredBlob], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total_bytes)
        yield lambda blob: progress.update(bar, advance=blob.size_bytes)


def _lines(total_bytes: int) -> Callable[[StoredBlob], None]:
    begun, read, told = time.monotonic(), 0, 0

    def tell(blob: StoredBlob) -> None:
        nonlocal read, told
        read += blob.size_bytes
        tenths = read * 10 // max(1, total_bytes)
        if tenths > told and time.monotonic() - begun > _TELL_AFTER_S:
            told = tenths
            say(f"{tenths}0% read")

    return tell
