"""A seccomp filter of our own making: a small assembler for the classic BPF that the kernel takes.

Sources: Linux Documentation/userspace-api/seccomp_filter.rst, include/uapi/linux/{seccomp,filter,bpf_common}.h. A
system library would be one more thing to install, and we need five instructions.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.linux import syscall
from sandbox.syscall_table import audit_arch, number

_LOAD, _AND, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = (
    0x20,
    0x54,
    0x15,
    0x35,
    0x06,
)  # BPF_LD|W|ABS, ALU|AND|K, JMP|…|K, RET|K
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16  # struct seccomp_data
_X32_BIT = 0x40000000  # x86_64 kernels also take the x32 numbers under the same audit constant
_SET_MODE_FILTER, _FLAG_TSYNC = 1, 1

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000


def refuse(code: int) -> int:
    """The action that makes a call fail with errno `code`."""
    return 0x00050000 | code


@dataclass(frozen=True, slots=True)
class Match:
    """True when `argument[index] & mask == value`. Only the low 32 bits are compared: all that the kernel reads of
    the ints and flags we match."""

    index: int
    value: int
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens on syscall `name`: `action` when every one of `matches` holds (none: always)."""

    name: str
    action: int = ALLOW
    matches: tuple[Match, ...] = ()


_EPERM = refuse(errno.EPERM)


def assemble(rules: Sequence[Rule], otherwise: int = _EPERM) -> bytes:
    """The filter program: foreign architecture is killed, each rule as it says, everything else as `otherwise` says.

    Calls that this machine does not have are left out. Two rules for one call: the first whose matches hold.
    """
    arch = audit_arch()
    if arch is None:
        raise OSError(errno.ENOSYS, "no syscall table for this machine")
    code = [
        _op(_LOAD, _OFFSET_ARCH),
        _op(_JUMP_EQUAL, arch, 1, 0),
        _op(_RETURN, KILL_PROCESS),
        _op(_LOAD, _OFFSET_NUMBER),
        _op(_JUMP_AT_LEAST, _X32_BIT, 0, 1),
        _op(_RETURN, refuse(errno.ENOSYS)),
    ]
    for rule in rules:
        code += _assemble_rule(rule)
    code.append(_op(_RETURN, otherwise))
    return b"".join(code)


def install(rules: Sequence[Rule], otherwise: int = _EPERM) -> None:
    """Put the filter on every thread of this process, for good. Needs no_new_privs. Raises OSError on refusal."""
    program = assemble(rules, otherwise)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    call = number("seccomp")
    if call is None:
        raise OSError(errno.ENOSYS, "no seccomp on this machine")
    straggler = syscall(call, _SET_MODE_FILTER, _FLAG_TSYNC, header)
    if straggler != 0:
        raise OSError(errno.EBUSY, f"thread {straggler} could not take the filter")


def _assemble_rule(rule: Rule) -> list[bytes]:
    call = number(rule.name)
    if call is None:
        return []
    body: list[bytes] = []
    for position, match in enumerate(rule.matches):
        left = len(rule.matches) - position - 1
        # A failed match jumps over the remaining matches (3 instructions each) and the return.
        body += [
            _op(_LOAD, _OFFSET_ARGUMENTS + 8 * match.index),
            _op(_AND, match.mask),
            _op(_JUMP_EQUAL, match.value, 0, 3 * left + 1),
        ]
    body.append(_op(_RETURN, rule.action))
    if rule.matches:
        body.append(_op(_LOAD, _OFFSET_NUMBER))  # the next rule compares the number again
    return [_op(_JUMP_EQUAL, call, 0, len(body)), *body]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
