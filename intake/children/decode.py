"""The confined decoder: one hostile medium at a time, in a process that can only compute.

Forked from intake/children/zygote. Frames of JSON, one per datagram of a SOCK_SEQPACKET channel: first our hello with
the isolation layers in force, then for each item the parent's request with its descriptors (the sealed input, and for
a derivation a memory file for the result) and our verdict. End of file on the channel ends the process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Sequence
from typing import Any

from contracts.artifact import Modality
from contracts.digest import wire_json
from contracts.errors import MediaRejected, NeedMissing
from contracts.limits import Limits
from intake.children import audio, derive, image, lengths, sniff, video
from intake.children.source import Source
from intake.decoder_wire import DERIVATIVE_BYTES_MAX, REQUEST_BYTES
from sandbox.confine import confine, decoder

_REASON_CHARS = 500
_TICK_S = 0.01


def prepare(limits: Limits) -> Any:
    """Import and warm everything that decoding loads on first use; returns libmagic. Call before the confinement."""
    image.prepare(limits)
    audio.prepare()
    video.prepare()
    derive.prepare()
    magic = sniff.load_magic()
    magic.from_buffer(b"warm")
    return magic


def serve(channel: socket.socket, limits: Limits, magic: Any, *, unsafe: bool = False) -> None:
    """Give up all rights, say hello with a descriptor of this process, serve until the parent is gone.

    `magic` is what `prepare` returned. `unsafe` goes on where neither Landlock nor seccomp can be had.
    """
    rights = decoder(limits.decode_memory_bytes, file_bytes=DERIVATIVE_BYTES_MAX, unsafe=unsafe)
    process = os.pidfd_open(os.getpid())
    try:
        hello: dict[str, Any] = {"layers": confine(rights)}
    except NeedMissing as error:
        hello = {"missing": error.reason, "rule": error.rule}
    socket.send_fds(channel, [wire_json(hello)], [process])
    os.close(process)
    while "layers" in hello and _serve_one(channel, limits, magic):
        pass


def _serve_one(channel: socket.socket, limits: Limits, magic: Any) -> bool:
    """Answer one request; False at the end of the channel."""
    try:
        request, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES, 2)
    except ConnectionError:  # the parent is gone, and left something of ours unread
        return False
    if not request:
        return False
    _limit_cpu(limits.decode_cpu_s)
    try:
        reply = verdict(json.loads(request), descriptors, limits, magic)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    channel.send(wire_json(reply))
    return True


def verdict(request: dict[str, Any], descriptors: Sequence[int], limits: Limits, magic: Any) -> dict[str, Any]:
    """The reply to a request: `descriptors` are the medium and, where a derivative is wanted, the file it goes into."""
    try:
        with Source(descriptors[0]) as source:
            return _decode(request, source, descriptors[1:], limits, magic)
    except MediaRejected as error:
        return {"rule": error.rule, "reason": error.reason[:_REASON_CHARS]}
    except MemoryError:
        reason = f"more than {limits.decode_memory_bytes} bytes over the decoder at rest"
        return {"rule": "decode-memory", "reason": reason}


def _decode(
    request: dict[str, Any], source: Source, output: Sequence[int], limits: Limits, magic: Any
) -> dict[str, Any]:
    media_type = sniff.sniff(source, magic, Modality(request["modality"]))
    layout = lengths.walk(media_type.name, source, limits)
    coded = source if layout.coded_end is None else source.until(layout.coded_end)
    reply = derive.decode_and_derive(request, coded, media_type, output, limits)
    for name, count in layout.least.items():
        if reply["findings"][name] < count:
            reason = f"{reply['findings'][name]} {name} decoded, the file has {count}"
            raise MediaRejected(f"{request['modality']}-truncated", reason)
    for name, count in layout.facts.items():
        reply["findings"][name] = reply["findings"].get(name, 0) + count
    return reply | {"media_type": media_type.name}


def _limit_cpu(seconds: int) -> None:
    """SIGPROF ends this process when the item has used `seconds` of CPU time: an rlimit counts whole seconds only, of
    all items, and would be late by up to one."""
    signal.setitimer(signal.ITIMER_PROF, max(seconds, _TICK_S))  # 0 would be no limit
