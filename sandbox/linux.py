"""The few calls into Linux that the standard library does not have."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_SET_VMA = 0x53564D41


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """A raw system call. Integers are passed as C longs, bytes as pointers. Raises OSError with the errno."""
    ctypes.set_errno(0)
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(_LIBC.syscall(ctypes.c_long(number), *values))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, argument: int) -> None:
    """prctl(2) with one argument. Raises OSError with the errno."""
    zero = ctypes.c_ulong(0)
    if _LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
