"""Exit codes and how an error becomes one: the command line's contract with scripts."""

from __future__ import annotations

from contracts.errors import EvidenceError, InputError, NeedMissing, StorageError, WorkerUnavailable

SUCCEEDED = 0
SOME_FAILED = 1
BAD_INPUT = 2
UNAVAILABLE = 3
INTERRUPTED = 130  # 128 + SIGINT, what a shell expects of a program stopped by Ctrl-C
TERMINATED = 143  # 128 + SIGTERM


def exit_code(error: EvidenceError) -> int:
    """The exit code of a command that `error` ended."""
    if isinstance(error, InputError):
        return BAD_INPUT
    if isinstance(error, NeedMissing | WorkerUnavailable | StorageError):
        return UNAVAILABLE
    return SOME_FAILED
