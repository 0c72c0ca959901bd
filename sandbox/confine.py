"""Giving up rights, in a child, for good: limits, user, Landlock, seccomp.

What works everywhere we tried (root or not, with or without user namespaces) is no_new_privs, rlimits, Landlock and
seccomp. Another user is added when the child is root, and `namespaces` where it was started with a view and they could
be made. Each layer in force is named, and the names go into records. Call it once everything is imported and open, and
before the first thread: Landlock holds for the calling thread and what it starts later.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import NeedMissing
from sandbox import landlock, namespaces, seccomp
from sandbox.linux import PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_SET_VMA, prctl
from sandbox.parent_death import die_with_parent
from sandbox.seccomp import KILL_PROCESS, Match, Rule, refuse

UNPRIVILEGED_ID = 65534
UNSAFE = "unsafe-no-landlock-no-seccomp"
"""Named as a layer where there is none that could hold hostile code, and the operator had it so."""
_CLONE_THREAD = 0x00010000
_AF_INET, _AF_INET6, _SOCK_STREAM, _SOCK_DGRAM, _SOCK_TYPE_MASK = 2, 10, 1, 2, 0xF
_IPPROTO_DEFAULT, _IPPROTO_TCP, _IPPROTO_UDP = 0, 6, 17
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_TCGETS, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX = 0x5401, 0x541B, 0x5421, 0x5450, 0x5451

_COMPUTE = (
    "read write readv writev pread64 pwrite64 lseek ftruncate close close_range fstat dup dup3 fcntl poll ppoll "
    "select pselect6 mmap mremap munmap mprotect madvise brk futex futex_waitv membarrier rt_sigaction "
    "rt_sigprocmask rt_sigreturn sigaltstack clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday "
    "times getrusage restart_syscall getpid getppid gettid getuid geteuid getgid getegid sched_yield "
    "sched_getaffinity getrandom sysinfo uname set_robust_list set_tid_address rseq exit exit_group recvmsg sendmsg "
    "recvfrom sendto getrlimit setrlimit setitimer"
)
_NETWORK = (
    "connect getsockopt setsockopt getsockname getpeername shutdown recvmmsg sendmmsg epoll_create1 epoll_ctl "
    "epoll_wait epoll_pwait epoll_pwait2 eventfd2 pipe2 openat newfstatat statx faccessat faccessat2 readlinkat "
    "getdents64 getcwd"
)
_REQUESTS = (_TCGETS, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX)  # what Python and the resolver ask of descriptors
_SIGNALLING = (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX)  # a descriptor's events would be signals to whomever it names

RESOLVER_FILES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/host.conf", "/etc/services"),
    *("/etc/protocols", "/etc/ld.so.cache", "/lib", "/lib64", "/usr/lib", "/usr/lib64"),
)
"""What glibc's resolver reads: its configuration, and the libraries its modules are loaded from."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a child keeps. Memory is address space over what it has at the call; everything else is given up.

    `unsafe` lets it go on where neither Landlock nor seccomp can be had, which the layers then say.
    """

    memory_bytes: int
    open_files: int
    file_bytes: int = 0
    cpu_s: int | None = None
    readable: tuple[str, ...] = ()
    connects: bool = False
    unsafe: bool = False


def decoder(
    memory_bytes: int,
    *,
    cpu_s: int | None = None,
    file_bytes: int = 0,
    open_files: int = 32,
    unsafe: bool = False,
) -> Confinement:
    """For hostile bytes: compute on descriptors it was given, and nothing else.

    No file is opened, no socket made, no process started. `cpu_s` is the hard limit of the whole process's CPU time
    (the process may move its own soft limit below it); `file_bytes` bounds what it may write into a descriptor.
    """
    return Confinement(memory_bytes, open_files, file_bytes=file_bytes, cpu_s=cpu_s, unsafe=unsafe)


def fetcher(memory_bytes: int, *, file_bytes: int, open_files: int = 1024, unsafe: bool = False) -> Confinement:
    """For hostile servers: may make TCP and UDP connections over IP and read the resolver's files.

    It cannot bind, listen, start a process, or open a file for writing; it writes only into descriptors it was given.
    """
    return Confinement(
        memory_bytes, open_files, file_bytes=file_bytes, readable=RESOLVER_FILES, connects=True, unsafe=unsafe
    )


def confine(confinement: Confinement) -> tuple[str, ...]:
    """Take the rights away; returns the names of the layers in force, such as `landlock-7` or `uid-65534`.

    Raises NeedMissing when neither Landlock nor seccomp can be had and that was not said to be wanted (rule
    `isolation-missing`), or when threads run already (rule `isolation-threads`): then nothing hostile may be touched.
    """
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    if threads != 1:
        raise NeedMissing("isolation-threads", f"expected one thread before the confinement, got {threads}")
    parent = os.getppid()
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _set_limits(confinement)
    layers = ["no_new_privs", "rlimits"]
    if namespaces.entered():
        layers.append("namespaces")
    strong = [*_attempt(lambda: f"landlock-{landlock.restrict(confinement.readable, connects=confinement.connects)}")]
    layers += _attempt(_drop_user)
    prctl(PR_SET_DUMPABLE, 0)
    die_with_parent(parent)  # the drop cleared it
    strong += _attempt(lambda: _install(confinement))
    if strong:
        return (*layers, *strong)
    if confinement.unsafe:
        return (*layers, UNSAFE)
    raise NeedMissing("isolation-missing", "neither Landlock nor seccomp is available: a Linux 5.13 kernel has both")


def _attempt(layer: Callable[[], str | None]) -> Iterable[str]:
    try:
        name = layer()
    except OSError:
        return ()
    return (name,) if name else ()


def _set_limits(confinement: Confinement) -> None:
    baseline = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _limit(resource.RLIMIT_AS, baseline + confinement.memory_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, confinement.file_bytes)
    _limit(resource.RLIMIT_NOFILE, confinement.open_files)
    if confinement.cpu_s is not None:
        _limit(resource.RLIMIT_CPU, confinement.cpu_s)


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _drop_user() -> str | None:
    if os.geteuid() != 0:
        return None
    os.setgroups([])
    os.setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    os.setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    return f"uid-{UNPRIVILEGED_ID}"


def _install(confinement: Confinement) -> str:
    seccomp.install(rules(confinement, os.getpid()))
    return "seccomp"


def rules(confinement: Confinement, pid: int) -> tuple[Rule, ...]:
    """The system calls that process `pid` keeps. What is not listed fails with EPERM."""
    allowed = [Rule("fcntl", refuse(errno.EPERM), (Match(1, command),)) for command in _SIGNALLING]
    allowed += [Rule(name) for name in _COMPUTE.split()]
    if confinement.connects:
        allowed += [Rule(name) for name in _NETWORK.split()]
        allowed += [
            Rule("socket", matches=(Match(0, family), Match(1, kind, _SOCK_TYPE_MASK), Match(2, protocol)))
            for family in (_AF_INET, _AF_INET6)
            for kind, own in ((_SOCK_STREAM, _IPPROTO_TCP), (_SOCK_DGRAM, _IPPROTO_UDP))
            for protocol in (_IPPROTO_DEFAULT, own)  # not ICMP, SCTP or MPTCP, which have these types, too
        ]
        allowed += [Rule("ioctl", matches=(Match(1, request),)) for request in _REQUESTS]
    return (
        *allowed,
        Rule("clone", matches=(Match(0, _CLONE_THREAD, _CLONE_THREAD),)),
        Rule("clone3", refuse(errno.ENOSYS)),  # its flags are behind a pointer; libc falls back to clone
        Rule("tgkill", matches=(Match(0, pid),)),
        Rule("prlimit64", matches=(Match(0, 0),)),  # 0 is this process
        Rule("prctl", matches=(Match(0, PR_SET_NAME),)),
        Rule("prctl", matches=(Match(0, PR_SET_VMA),)),
        *(Rule(name, KILL_PROCESS) for name in ("execve", "execveat", "ptrace")),
    )
