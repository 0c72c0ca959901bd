"""What was really sent: every packet on the private network's only interface, as the kernel hands it on.

A connection is a SYN to an address and port, whether anybody listens there or not; its bytes are the payload that
followed to the same place. Nothing that a client says of itself is believed.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_address

from contracts.address_tables import Address

_EVERY_PROTOCOL, _OUTGOING = 3, 4
_ETHERNET, _IPV4, _IPV6 = 14, 0x0800, 0x86DD
_SYN, _SYN_ACK = 0x02, 0x12
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_BUFFER_BYTES = 16 << 20  # asked for; the host's bound may be less, and then a loss is an error
_NAME_SERVER = (ip_address("127.0.0.1"), 53)


@dataclass
class Contact:
    """What went to one address and port: how many connections were begun or datagrams sent, and how many bytes."""

    address: Address
    port: int
    connections: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"


class Witness:
    """Sees all packets from the moment it is made."""

    def __init__(self) -> None:
        self._end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._end.bind(("lo", _EVERY_PROTOCOL))
        self._end.setblocking(False)

    def contacts(self) -> list[Contact]:
        """Whom anybody contacted since the last call, the name server excepted, in the order of the first packet.

        A packet on loopback is queued here before the call that sent it returns, so nothing is waited for. Raises
        RuntimeError if the kernel had to drop any.
        """
        _, dropped = struct.unpack("II", self._end.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped:
            raise RuntimeError(f"{dropped} packets were not seen")
        found: dict[tuple[Address, int], Contact] = {}
        while True:
            try:
                data, (_, protocol, kind, *_rest) = self._end.recvfrom(1 << 17)
            except BlockingIOError:
                return list(found.values())
            if kind == _OUTGOING and protocol in (_IPV4, _IPV6):
                _note(found, data[_ETHERNET:], protocol)


def _note(found: dict[tuple[Address, int], Contact], packet: bytes, protocol: int) -> None:
    if protocol == _IPV4:
        begin, transport, target = (packet[0] & 15) * 4, packet[9], packet[16:20]
        packet = packet[: struct.unpack_from(">H", packet, 2)[0]]
    else:
        begin, transport, target = 40, packet[6], packet[24:40]
    key = ip_address(target), struct.unpack_from(">H", packet, begin + 2)[0]
    if transport == socket.IPPROTO_TCP:
        flags, payload = packet[begin + 13], len(packet) - begin - (packet[begin + 12] >> 4) * 4
        if flags & _SYN_ACK == _SYN:
            found.setdefault(key, Contact(*key)).connections += 1
        elif key in found:  # else an answer, on its way to who began
            found[key].bytes += payload
    elif transport == socket.IPPROTO_UDP and key != _NAME_SERVER and packet[begin : begin + 2] != b"\0\x35":
        contact = found.setdefault(key, Contact(*key))
        contact.connections += 1
        contact.bytes += len(packet) - begin - 8
