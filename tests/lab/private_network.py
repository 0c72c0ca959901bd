"""A network of one's own in which every address is local (AnyIP), entered by the calling process.

Nothing outside is reached and nothing outside is changed: routes, resolver files and mounts are of new namespaces. What
is dialled here, whatever its address, arrives at a listener of this process, so a fetch of a metadata address can be
seen to happen, or not to.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW_NET, _NEW_MOUNT, _NEW_USER = 0x40000000, 0x00020000, 0x10000000
_MS_BIND, _MS_REC_PRIVATE = 0x1000, 0x44000
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_NETLINK_ROUTE, _RTM_NEWROUTE, _NLMSG_ERROR = 0, 24, 2
_REQUEST_CREATE_ACK = 0x1 | 0x400 | 0x4
_TABLE_LOCAL, _PROTO_BOOT, _SCOPE_HOST, _TYPE_LOCAL = 255, 3, 254, 2
_RTA_OIF, _LOOPBACK = 4, 1
SEARCHED = "cluster.example"
"""The domain in which a container's resolver is told to look first. What a URL names is never in it."""
RESOLVER_FILES = {
    "resolv.conf": f"nameserver 127.0.0.1\nsearch {SEARCHED}\noptions timeout:1 attempts:1 ndots:5\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
}


class NotAllowed(Exception):
    """Namespaces, mounts or routes are not allowed here; the text says which."""


def enter(folder: Path) -> None:
    """Move this process, which must have one thread, into new namespaces; `folder` gets the resolver's files.

    As root, or where an unprivileged user may make user namespaces. Raises NotAllowed.
    """
    user, group = os.geteuid(), os.getegid()
    _check(_libc().unshare(_NEW_NET | _NEW_MOUNT | (_NEW_USER if user else 0)), "namespaces")
    if user:
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", "ascii")
    mount("none", "/", _MS_REC_PRIVATE)
    for name, text in RESOLVER_FILES.items():
        (folder / name).write_text(text, "ascii")
        mount(folder / name, f"/etc/{name}")
    with socket.socket() as end:
        fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
    for family in (socket.AF_INET, socket.AF_INET6):
        _make_every_address_local(family)


def mount(source: str | Path, target: str, flags: int = _MS_BIND) -> None:
    """Bind `source` over `target`. Raises NotAllowed."""
    result = _libc().mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None)
    _check(result, f"a mount over {target}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise NotAllowed(f"{what}: {errno.errorcode.get(ctypes.get_errno(), 'error')}")


def _make_every_address_local(family: socket.AddressFamily) -> None:
    """What `ip route add local 0.0.0.0/0 dev lo` does, and ::/0 (rtnetlink(7))."""
    route = struct.pack("8BI", family, 0, 0, 0, _TABLE_LOCAL, _PROTO_BOOT, _SCOPE_HOST, _TYPE_LOCAL, 0)
    attributes = struct.pack("HHI", 8, _RTA_OIF, _LOOPBACK)
    length = 16 + len(route) + len(attributes)
    header = struct.pack("IHHII", length, _RTM_NEWROUTE, _REQUEST_CREATE_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as end:
        end.bind((0, 0))
        end.send(header + route + attributes)
        answer = end.recv(4096)
    kind, code = struct.unpack_from("4xH", answer)[0], struct.unpack_from("i", answer, 16)[0]
    if kind != _NLMSG_ERROR or code not in (0, -errno.EEXIST):
        raise NotAllowed(f"a local route for every address: {errno.errorcode.get(-code, 'error')}")
