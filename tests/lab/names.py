"""A name server on 127.0.0.1:53 that says what its script says, of every name but those of the searched domain."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence

from tests.lab.private_network import SEARCHED

_SEARCHED = b"".join(bytes([len(label)]) + label.encode() for label in SEARCHED.split("."))
_INSIDE = "10.0.0.1"
_A, _AAAA = 1, 28


class NameServer:
    """Each resolution gets the next of the script's answers, the last one again and again; none means no such name.

    Names beneath the searched domain lead inside: who looks there finds a forbidden address in place of the script's.
    """

    def __init__(self) -> None:
        self._end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._end.bind(("127.0.0.1", 53))
        self._turns: list[Sequence[str]] = []
        self._asked = {_A: 0, _AAAA: 0}
        threading.Thread(target=self._serve, daemon=True).start()

    def script(self, *turns: Sequence[str]) -> None:
        """The addresses of the first resolution from now on, of the second, …"""
        self._turns = list(turns)
        self._asked = {_A: 0, _AAAA: 0}

    @property
    def resolutions(self) -> int:
        """How often addresses were asked for since `script`."""
        return max(self._asked.values())

    def _serve(self) -> None:
        while True:
            query, client = self._end.recvfrom(4096)
            self._end.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        end = 12
        while query[end]:
            end += 1 + query[end]
        kind = struct.unpack_from(">H", query, end + 1)[0]
        addresses: list[bytes] = []
        if query[12:end].endswith(_SEARCHED):
            addresses = [_packed(_INSIDE)] if kind == _A else []
        elif self._turns and kind in self._asked:
            turn = self._turns[min(self._asked[kind], len(self._turns) - 1)]
            self._asked[kind] += 1
            addresses = [_packed(address) for address in turn if (":" in address) == (kind == _AAAA)]
        flags = b"\x81\x80" if addresses or any(self._turns) else b"\x81\x83"
        records = (b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(address)) + address for address in addresses)
        return query[:2] + flags + struct.pack(">4H", 1, len(addresses), 0, 0) + query[12 : end + 5] + b"".join(records)


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
