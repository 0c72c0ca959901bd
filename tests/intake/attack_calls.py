"""Numbers of system calls that no part of the product makes, so that the tests can try them (x86_64, aarch64)."""

from __future__ import annotations

CALLS = {
    name: {"x86_64": x86_64, "aarch64": aarch64}
    for name, x86_64, aarch64 in (
        ("clone", 56, 220),
        ("clone3", 435, 435),
        ("ptrace", 101, 117),
        ("process_vm_readv", 310, 270),
        ("tgkill", 234, 131),
        ("prlimit64", 302, 261),
        ("io_uring_setup", 425, 425),
        ("keyctl", 250, 219),
        ("add_key", 248, 217),
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("userfaultfd", 323, 282),
        ("unshare", 272, 97),
        ("mount", 165, 40),
        ("pivot_root", 155, 41),
        ("open_by_handle_at", 304, 265),
        ("finit_module", 313, 273),
    )
}
