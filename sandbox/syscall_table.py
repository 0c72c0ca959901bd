"""Syscall numbers by name for the architectures we run on, and each one's audit constant.

Sources: Linux arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (used by arm64);
AUDIT_ARCH_* of include/uapi/linux/audit.h. `None`: the architecture has no such call.
"""

from __future__ import annotations

import platform

AUDIT_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64)
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "lseek": (8, 62),
    "close": (3, 57),
    "close_range": (436, 436),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "mmap": (9, 222),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "futex_waitv": (449, 449),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "recvmsg": (47, 212),
    "sendmsg": (46, 211),
    "recvfrom": (45, 207),
    "sendto": (44, 206),
    "recvmmsg": (299, 243),
    "sendmmsg": (307, 269),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "times": (100, 153),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "fcntl": (72, 25),
    "dup": (32, 23),
    "dup3": (292, 24),
    "ftruncate": (77, 46),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "tgkill": (234, 131),
    "membarrier": (324, 283),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "restart_syscall": (219, 128),
    "getcwd": (79, 17),
    "setitimer": (38, 103),
    "getrlimit": (97, 163),
    "setrlimit": (160, 164),
    "prlimit64": (302, 261),
    "prctl": (157, 167),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "socket": (41, 198),
    "connect": (42, 203),
    "getsockopt": (55, 209),
    "setsockopt": (54, 208),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "shutdown": (48, 210),
    "ioctl": (16, 29),
    "openat": (257, 56),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "eventfd2": (290, 19),
    "pipe2": (293, 59),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "unshare": (272, 97),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "mount_setattr": (442, 442),
    "capset": (126, 91),
}


def audit_arch() -> int | None:
    """The AUDIT_ARCH_* constant of this machine, or None where no table exists."""
    return AUDIT_ARCHES.get(platform.machine())


def number(name: str) -> int | None:
    """The number of syscall `name` on this machine, None if it has no such call. Raises KeyError for others."""
    x86_64, aarch64 = _NUMBERS[name]
    return {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]


def names() -> tuple[str, ...]:
    """Every name that `number` knows."""
    return tuple(_NUMBERS)
