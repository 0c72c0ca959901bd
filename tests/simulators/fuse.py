"""A file system in user space that is empty and takes nothing, mounted under any name (fuse(4); linux/fuse.h).

    with mounted(folder, "fuse.sshfs") as asked:
        ...  # `asked` are the opcodes of what was asked of it so far

For a process in a mount namespace of its own: `in_namespace` starts one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOKUP, FORGET, GETATTR, MKDIR, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 9, 26, 36, 42
_UNANSWERED = frozenset({FORGET, INTERRUPT, BATCH_FORGET})
_REQUEST = struct.Struct("=IIQQIIII")
_REPLY = struct.Struct("=IiQ")
_INIT_OUT = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, 4_096, 1, 0, 0, 0)
_ATTRIBUTES = struct.pack("=QII6Q3I7I", 60, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o700, 2, 0, 0, 0, 4_096, 0)
_DETACH = 2


def in_namespace() -> list[str]:
    """The command that runs another one where it may mount."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--mount", *rights]


@contextmanager
def mounted(folder: Path, kind: str) -> Iterator[list[int]]:
    """Mount it on `folder`, as the type `kind`: `fuse` or `fuse.<subtype>`. Raises OSError where nobody may."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"simulated", str(folder).encode(), kind.encode(), 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount a {kind}")
    asked: list[int] = []
    threading.Thread(target=_serve, args=(device, asked), daemon=True).start()
    try:
        yield asked
    finally:
        libc.umount2(str(folder).encode(), _DETACH)


def _serve(device: int, asked: list[int]) -> None:
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return  # unmounted
        _, opcode, unique, *_ = _REQUEST.unpack_from(request)
        asked.append(opcode)
        if opcode not in _UNANSWERED:
            os.write(device, _answer(opcode, unique))


def _answer(opcode: int, unique: int) -> bytes:
    body = {INIT: _INIT_OUT, GETATTR: _ATTRIBUTES}.get(opcode, b"")
    error = 0 if body else -errno.ENOENT if opcode == LOOKUP else -errno.ENOSYS
    return _REPLY.pack(_REPLY.size + len(body), error, unique) + body
