"""A program for the tests: a private network with a scripted name server, in which the real fetcher resolves.

It moves itself into new network and mount namespaces, so it reaches nothing outside and nothing outside is changed.
Prints one JSON object per URL: `host`, `answers` where they were refused, and `dialled` or `rule`; the last one was
fetched while 200 names of another domain waited for an answer that never comes. Exit code 77 where namespaces are not
allowed.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import tempfile
import threading
from pathlib import Path

from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from intake.fetcher import Fetcher
from tests.simulators.origin import answer, origin

_NEW_NET, _NEW_MOUNT, _MS_BIND, _MS_REC_PRIVATE = 0x40000000, 0x00020000, 0x1000, 0x44000
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
NOT_ALLOWED = 77
POLICY = NetworkPolicy("lab-unsafe", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
ANSWERS: dict[str, list[list[str]]] = {
    "plain.example.org": [["127.0.0.1"]],
    "mixed.example.org": [["127.0.0.1", "10.0.0.1"]],
    "metadata.example.org": [["169.254.169.254"]],
    "many.example.org": [[f"93.184.216.{last}" for last in range(40)]],
    "rebind.example.org": [["127.0.0.1"], ["169.254.169.254"]],
}
SILENT = "silent.example.net"
ORDER = [*ANSWERS, "rebind.example.org", "missing.example.org"]


def _enter_private_network(resolver: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NET | _NEW_MOUNT) != 0:
        sys.exit(NOT_ALLOWED)
    steps = [(b"none", b"/", _MS_REC_PRIVATE), (os.fsencode(resolver), b"/etc/resolv.conf", _MS_BIND)]
    if any(libc.mount(source, target, None, ctypes.c_ulong(flags), None) != 0 for source, target, flags in steps):
        sys.exit(NOT_ALLOWED)
    with socket.socket() as end:
        fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))


def _serve_names(server: socket.socket) -> None:
    """Answer A questions from the table, each time with the next of the name's answers; anything else is empty."""
    asked: dict[str, int] = {}
    while True:
        query, client = server.recvfrom(512)
        name, end = _question(query)
        if name.endswith(SILENT):
            continue
        kind = struct.unpack(">H", query[end : end + 2])[0]
        turns = ANSWERS.get(name, [])
        addresses: list[str] = []
        if turns and kind == 1:
            addresses = turns[min(asked.get(name, 0), len(turns) - 1)]
            asked[name] = asked.get(name, 0) + 1
        header = query[:2] + (b"\x81\x80" if turns else b"\x81\x83") + struct.pack(">HHHH", 1, len(addresses), 0, 0)
        records = (b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address) for address in addresses)
        server.sendto(header + query[12 : end + 4] + b"".join(records), client)


def _question(query: bytes) -> tuple[str, int]:
    labels, position = [], 12
    while length := query[position]:
        labels.append(query[position + 1 : position + 1 + length].decode())
        position += 1 + length
    return ".".join(labels).lower(), position + 1


async def _fetch_all() -> None:
    limits = Limits().changed({"fetch_connect_s": 2.0})
    scripts = {"/": answer("200 OK", {"Connection": "close"}, b"x")}
    async with Fetcher(limits, stderr=2) as fetcher, origin(scripts) as served:
        for host in ORDER:
            print(json.dumps(await _fetch(fetcher, host, served.url("/", host))), flush=True)
        waiting = [f"{number}.{SILENT}" for number in range(200)]
        tasks = [asyncio.create_task(_fetch(fetcher, host, served.url("/", host))) for host in waiting]
        await asyncio.sleep(0)
        print(json.dumps(await _fetch(fetcher, ORDER[0], served.url("/", ORDER[0]))), flush=True)
        rules = {str(each["rule"]) for each in await asyncio.gather(*tasks)}
        print(json.dumps({"host": SILENT, "rule": " ".join(sorted(rules))}), flush=True)


async def _fetch(fetcher: Fetcher, host: str, url: str) -> dict[str, object]:
    result: dict[str, object] = {"host": host}
    with tempfile.TemporaryFile() as file:
        record = await fetcher.fetch(url, policy=POLICY, max_bytes=9, into=file.fileno())
    (hop,) = record.hops
    if record.failure is None:
        return result | {"dialled": hop.dialled}
    refused = {"answers": len(hop.answers)} if hop.answers and not hop.vetted else {}
    return result | refused | {"rule": record.failure.rule}


def main() -> None:
    resolver = Path(sys.argv[1])
    resolver.write_text("nameserver 127.0.0.1\n")
    _enter_private_network(resolver)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    threading.Thread(target=_serve_names, args=(server,), daemon=True).start()
    asyncio.run(_fetch_all())


if __name__ == "__main__":
    main()
