"""Landlock by raw system calls: a process gives up the file system, save a few places it may read.

Sources: Linux Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h. What is handled depends on
the kernel's ABI; everything handled is denied unless a rule allows it.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from sandbox.linux import syscall
from sandbox.syscall_table import number

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# Which file-system rights exist, by the first ABI that has them: REFER came with 2, TRUNCATE 3, IOCTL_DEV 5.
_FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_NET_SINCE, _BIND_TCP, _CONNECT_TCP = 4, 1, 2
_SCOPE_SINCE, _SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 6, 1, 2


def abi() -> int:
    """The kernel's Landlock ABI, 0 where there is none or it is switched off."""
    try:
        return syscall(_number("landlock_create_ruleset"), None, 0, _CREATE_RULESET_VERSION)
    except (OSError, KeyError):
        return 0


def restrict(readable: Iterable[str], *, connects: bool) -> int:
    """Give up the file system (but reading beneath `readable`), TCP bind, TCP connect unless `connects`, and signals
    to processes outside.

    Holds for this thread and what it starts. Needs no_new_privs. A path that does not exist is left out. Returns the
    ABI in force; raises OSError where the kernel refuses.
    """
    version = abi()
    if version == 0:
        raise OSError("the kernel has no Landlock")
    files = _FILE_RIGHTS[max(first for first in _FILE_RIGHTS if first <= version)]
    fields = [files]
    if version >= _NET_SINCE:
        fields.append(_BIND_TCP if connects else _BIND_TCP | _CONNECT_TCP)
    if version >= _SCOPE_SINCE:
        fields.append(_SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = syscall(_number("landlock_create_ruleset"), attributes, len(attributes), 0)
    try:
        for path in readable:
            _allow_reading(ruleset, path)
        syscall(_number("landlock_restrict_self"), ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow_reading(ruleset: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = _READ_FILE | _READ_DIR if stat.S_ISDIR(os.fstat(descriptor).st_mode) else _READ_FILE
        rule = struct.pack("=Qi", rights, descriptor)
        syscall(_number("landlock_add_rule"), ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _number(name: str) -> int:
    found = number(name)
    if found is None:
        raise OSError(f"no {name} on this machine")
    return found
