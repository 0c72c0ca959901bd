"""What the parent and the fetcher say to each other, and how: one JSON document per packet, each of a known shape.

A SOCK_SEQPACKET socket keeps packets whole and ties descriptors to the packet they came with (unix(7)), so the
kernel does the length prefix. A packet over the bound, of an unknown shape or with more than its shape allows is a
broken protocol: the parent kills the child for it.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeVar

import msgspec

from contracts.digest import Digest
from contracts.errors import ChildFailed
from contracts.records import RECORDED_HEADERS, Hop, TlsFacts

PACKET_BYTES = 64 * 1024
OPEN_FILES = 4_096  # that the fetcher may hold, if the host lets it
MOST_HOPS, MOST_ANSWERS = 32, 64  # that a report tells of
_DESCRIPTORS = 1

ShortText = Annotated[str, msgspec.Meta(max_length=256)]
UrlText = Annotated[
    str, msgspec.Meta(max_length=4352)
]  # contracts.url_grammar.URL_BYTES, and a host in its longer form
DigestText = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
RuleName = Annotated[str, msgspec.Meta(max_length=64, pattern="^[a-z0-9]+(-[a-z0-9]+)*\\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """One packet; `op` names its kind."""


class Configure(Frame, frozen=True, tag="configure"):
    """First to the fetcher: the limits in force. Its descriptor holds trust anchors (PEM) beside the public ones.
    `unsafe`: start also without isolation."""

    limits: dict[str, float]
    unsafe: bool = False


class Policy(Frame, frozen=True, tag="policy"):
    """To the fetcher: from now on `number` means the policy whose JSON form the descriptor holds. Lists of what is
    denied may be longer than a packet."""

    number: int


class Fetch(Frame, frozen=True, tag="fetch"):
    """To the fetcher, with one descriptor to write the body into; `policy` is a number that it was told."""

    id: int
    url: str
    policy: int
    max_bytes: int


class Cancel(Frame, frozen=True, tag="cancel"):
    """To the fetcher: nobody waits for this one any more."""

    id: int


class Ready(Frame, frozen=True, tag="ready"):
    """First from the fetcher: it is confined, by these layers."""

    layers: Annotated[list[ShortText], msgspec.Meta(max_length=16)]


class Unfit(Frame, frozen=True, tag="unfit"):
    """First and last from a fetcher that cannot start: the rule and reason of what the machine lacks."""

    rule: RuleName
    reason: Annotated[str, msgspec.Meta(max_length=2048)]


class TlsFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `contracts.records.TlsFacts`."""

    version: ShortText
    cipher: ShortText
    certificate: DigestText

    @classmethod
    def of(cls, tls: TlsFacts) -> TlsFrame:
        return cls(tls.version, tls.cipher, str(tls.certificate))

    def to_facts(self) -> TlsFacts:
        return TlsFacts(self.version, self.cipher, Digest.parse(self.certificate))


class HopFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One hop as the fetcher saw it; the fields of `contracts.records.Hop`."""

    url: UrlText
    url_digest: DigestText
    status: Annotated[int, msgspec.Meta(ge=100, le=999)] | None
    vetted: Annotated[list[ShortText], msgspec.Meta(max_length=MOST_ANSWERS)]
    dialled: ShortText | None
    tls: TlsFrame | None
    headers: Annotated[list[tuple[ShortText, UrlText]], msgspec.Meta(max_length=2 * len(RECORDED_HEADERS))]
    framing: ShortText | None
    seconds: Seconds
    answers: Annotated[list[ShortText], msgspec.Meta(max_length=MOST_ANSWERS)] = []
    resolved_s: Seconds | None = None
    connected_s: Seconds | None = None
    tls_s: Seconds | None = None

    @classmethod
    def of(cls, hop: Hop) -> HopFrame:
        tls = None if hop.tls is None else TlsFrame.of(hop.tls)
        return cls(
            hop.url,
            str(hop.url_digest),
            hop.status,
            list(hop.vetted),
            hop.dialled,
            tls,
            list(hop.headers),
            hop.framing,
            hop.seconds,
            list(hop.answers),
            hop.resolved_s,
            hop.connected_s,
            hop.tls_s,
        )

    def to_hop(self) -> Hop:
        return Hop(
            self.url,
            Digest.parse(self.url_digest),
            self.status,
            tuple(self.vetted),
            self.dialled,
            None if self.tls is None else self.tls.to_facts(),
            tuple(self.headers),
            self.framing,
            self.seconds,
            tuple(self.answers),
            self.resolved_s,
            self.connected_s,
            self.tls_s,
        )


Hops = Annotated[list[HopFrame], msgspec.Meta(max_length=MOST_HOPS)]


class Done(Frame, frozen=True, tag="done"):
    """From the fetcher: the body is in the descriptor. Size and digest are its word; the parent measures."""

    id: Count
    size_bytes: Count
    digest: ShortText
    media_type: ShortText | None
    hops: Annotated[Hops, msgspec.Meta(min_length=1)]


class Failed(Frame, frozen=True, tag="failed"):
    """From the fetcher: the error that ended the fetch, and how far it came; `error` names its class in
    contracts.errors."""

    id: Count
    error: ShortText
    rule: RuleName
    reason: Annotated[str, msgspec.Meta(max_length=2048)]
    hops: Hops
    retry_after_s: Seconds | None = None


Order = Configure | Policy | Fetch | Cancel
Report = Ready | Unfit | Done | Failed
_TO_CHILD: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
_FROM_CHILD: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)
_Read = TypeVar("_Read")


def read_order(packet: bytes) -> Order:
    """Read what the parent sent. Raises ChildFailed `fetcher-protocol`."""
    return _decode(_TO_CHILD, packet)


def read_report(packet: bytes) -> Report:
    """Read what the fetcher sent. Raises ChildFailed `fetcher-protocol`."""
    return _decode(_FROM_CHILD, packet)


@contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """A descriptor of a file in memory that holds `content`: for what may be larger than a packet."""
    descriptor = os.memfd_create("packet", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def read_memory_file(descriptor: int) -> bytes:
    """All of it, from its beginning; the descriptor is closed."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


class PacketChannel:
    """One end of the socket pair, for one event loop. Sends may come from many tasks, receives from one."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._sending = asyncio.Lock()
        self._waits: set[asyncio.Event] = set()

    async def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send one packet. Raises ChildFailed if it is over the bound, OSError if the peer is gone."""
        packet = msgspec.json.encode(frame)
        if len(packet) > PACKET_BYTES:
            raise ChildFailed("fetcher-protocol", f"expected a packet of at most {PACKET_BYTES} bytes")
        async with self._sending:
            loop = asyncio.get_running_loop()
            while True:
                try:
                    socket.send_fds(self._end, [packet], list(descriptors))
                    return
                except BlockingIOError:
                    await self._ready(loop.add_writer, loop.remove_writer)

    async def receive(self) -> tuple[bytes, list[int]]:
        """The next packet and its descriptors, which the caller closes; b"" when the peer is gone.

        Raises ChildFailed `fetcher-protocol` for a packet over the bound.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                return self._receive_now()
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
            except ConnectionError:
                return b"", []

    def close(self) -> None:
        """Close this end; the peer sees the end of the channel, and who waits here sees an OSError."""
        if self._waits and self._end.fileno() >= 0:  # the kernel tells nobody about a descriptor that is gone
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._end)
            loop.remove_writer(self._end)
        self._end.close()
        for event in self._waits:
            event.set()

    async def _ready(self, add: Callable[..., None], remove: Callable[..., bool]) -> None:
        event = asyncio.Event()
        add(self._end, event.set)
        self._waits.add(event)
        try:
            await event.wait()
        finally:
            self._waits.discard(event)
            if self._end.fileno() >= 0:
                remove(self._end)

    def _receive_now(self) -> tuple[bytes, list[int]]:
        space = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
        packet, ancillary, flags, _ = self._end.recvmsg(PACKET_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(descriptors) > _DESCRIPTORS:
            for descriptor in descriptors:
                os.close(descriptor)
            raise ChildFailed(
                "fetcher-protocol", f"a packet is over {PACKET_BYTES} bytes or {_DESCRIPTORS} descriptors"
            )
        return packet, list(descriptors)


def _decode(decoder: msgspec.json.Decoder[_Read], packet: bytes) -> _Read:
    try:
        return decoder.decode(packet)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChildFailed("fetcher-protocol", f"a packet of {len(packet)} bytes has no known shape") from error
