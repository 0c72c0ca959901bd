"""A second layer around a child: namespaces of its own, in which only a few places of the file system exist.

Made by system calls and not by a wrapping program: nothing is executed a second time, the parent-death signal has no
gap (docs/adr/0006-namespaces-by-system-calls.md), and no program need be visible inside. Sources: namespaces(7),
user_namespaces(7), pivot_root(2), mount_setattr(2).
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sandbox.linux import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl, syscall
from sandbox.syscall_table import number

_ROOT = Path(__file__).resolve().parent.parent
_BASE = "/tmp"  # noqa: S108  (a directory that exists everywhere; what is mounted over it is seen by us alone)
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_NEW_MOUNTS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID = (
    *(0x00020000, 0x02000000, 0x04000000),
    *(0x08000000, 0x10000000, 0x20000000),
)
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 0x1000, 0x4000, 1 << 18
_DETACH, _RECURSIVE, _AT_FDCWD = 2, 0x8000, -100
_READ_ONLY_NOSUID_NODEV = struct.pack("=4Q", 1 | 2 | 4, 0, 0, 0)  # struct mount_attr
_NO_CAPABILITIES = (struct.pack("=Ii", 0x20080522, 0), bytes(24))  # header of version 3, two empty sets of three

_inside = False


@dataclass(frozen=True, slots=True)
class View:
    """What a child sees of the file system, read-only: the interpreter and its packages, the system's libraries, the
    named top-level packages of this repository, and `readable` paths (those that exist)."""

    packages: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()

    def places(self, module: str) -> tuple[str, ...]:
        """The paths for a child that runs `module`, without the interpreter's, which the child knows itself."""
        packages = {"sandbox", "contracts", module.partition(".")[0], *self.packages}
        return (*(str(_ROOT / name) for name in sorted(packages)), *_LIBRARIES, *self.readable)


def entered() -> bool:
    """Whether this process lives in namespaces that `enter` made."""
    return _inside


def enter(places: Sequence[str], *, channel: int) -> bool:
    """Go on as the first process of new namespaces, where only `places` and the interpreter's exist; False: refused.

    New are mounts, processes, IPC, host name, cgroup and, for all but root, users; the network stays. The calling
    process remains outside, holding `channel` (whose end then says that the outside ended, too), until the inside
    ends, and ends the same way. It needs one thread. As root it needs CAP_SYS_ADMIN; others need unprivileged user
    namespaces. Where a trial is refused, nothing has changed. Raises OSError when it is refused although the trial
    was not: then nothing may go on.
    """
    visible = _without_nested((*places, *_interpreter()))
    if not _trial(visible):
        return False
    extra = {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, channel}  # noqa: PTH208
    _unshare()
    ours, theirs = os.pipe()
    child = os.fork()
    if child != 0:
        _wait_outside(child, (extra | {ours}) - {theirs})
    os.close(theirs)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([ours], [], [], 0)[0]:  # end of file: the outside ended before the signal was set
        raise SystemExit("the parent is gone")
    os.close(ours)
    _settle(visible)
    global _inside
    _inside = True
    return True


def _trial(places: Iterable[str]) -> bool:
    """Whether it works, in processes that end: one that unshared and failed could not even start a thread."""
    outside = os.fork()
    if outside != 0:
        return os.waitstatus_to_exitcode(os.waitpid(outside, 0)[1]) == 0
    try:
        _unshare()
        inside = os.fork()
        if inside != 0:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inside, 0)[1]) & 0xFF)
        _settle(places)
    except (OSError, KeyError) as error:
        print(f"no namespaces: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _unshare() -> None:
    """Leave the namespaces; the next fork is the first process of the new ones. Users but root keep their own id."""
    flags = _NEW_MOUNTS | _NEW_CGROUP | _NEW_UTS | _NEW_IPC | _NEW_PID
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", flags)
        return
    _call("unshare", flags | _NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _settle(places: Iterable[str]) -> None:
    """Build the file system of `places`, make it all there is, and give up what rights that took.

    The old root stays reachable until the end, so each source is opened before the new root may cover it.
    """
    _mount(None, "/", None, _REC | _PRIVATE)
    sources = [(os.open(place, os.O_PATH | os.O_CLOEXEC), place) for place in places]
    _mount("tmpfs", _BASE, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0755,size=1m")
    for descriptor, place in sources:
        target = Path(_BASE + place)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(target), None, _BIND | _REC)
        os.close(descriptor)
    proc = Path(_BASE, "proc")
    proc.mkdir()
    _mount("proc", str(proc), "proc", _NOSUID | _NODEV | _NOEXEC)
    _call("mount_setattr", _AT_FDCWD, _BASE.encode(), _RECURSIVE, _READ_ONLY_NOSUID_NODEV, len(_READ_ONLY_NOSUID_NODEV))
    os.chdir(_BASE)
    _call("pivot_root", b".", b".")  # pivot_root(2): the old root now lies over the new one
    _call("umount2", b".", _DETACH)
    os.chdir("/")
    socket.sethostname("confined")
    if os.geteuid() != 0:  # root changes its user when it is confined, which takes them away
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _call("capset", *_NO_CAPABILITIES)


def _wait_outside(child: int, extra: Iterable[int]) -> NoReturn:
    """Close the `extra` descriptors, end when `child` does, and as it did.

    No path may be used here: when the inside pivots, this process's root becomes the new one, too.
    """
    for descriptor in extra:
        with suppress(OSError):  # the listing named its own, which is closed already
            os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    os._exit(code)


def _interpreter() -> tuple[str, ...]:
    """Where this interpreter imports from and loads libraries from; its program is mapped already."""
    libraries = (str(Path(sys.base_prefix, name)) for name in ("lib", "lib64"))
    return (*(path for path in sys.path if path and Path(path) != _ROOT), *libraries)


def _without_nested(places: Iterable[str]) -> tuple[str, ...]:
    """The places that exist, without those beneath another: nothing is ever made inside a bound directory."""
    kept = list[Path]()
    for place in sorted({Path(place) for place in places}):
        if place.exists() and not any(place.is_relative_to(other) for other in kept):
            kept.append(place)
    return tuple(str(place) for place in kept)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _call("mount", *texts[:3], flags, texts[3])


def _call(name: str, *arguments: int | bytes | None) -> None:
    found = number(name)
    if found is None:
        raise OSError(f"no {name} on this machine")
    try:
        syscall(found, *arguments)
    except OSError as error:
        raise OSError(error.errno, f"{name}: {error.strerror}") from None
