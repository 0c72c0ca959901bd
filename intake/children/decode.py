"""The confined decoder: one hostile medium at a time, in a process that can only compute.

Started by intake/decoders through sandbox.spawn. Frames of JSON, one per datagram of a SOCK_SEQPACKET channel: first
our hello with the isolation layers in force, then for each item the parent's request with its descriptors (the sealed
input, and for a derivation a memory file for the result) and our verdict. End of file on the channel ends the process.
"""

from __future__ import annotations

import json
import math
import os
import resource
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


def main(channel: socket.socket, arguments: Sequence[str]) -> None:
    """Prepare, give up all rights, say hello, serve until the parent is gone. `arguments[0]` is the limits as JSON."""
    limits = Limits(**json.loads(arguments[0]))
    image.prepare(limits)
    audio.prepare()
    video.prepare()
    derive.prepare()
    magic = sniff.load_magic()
    magic.from_buffer(b"warm")
    try:
        layers = confine(decoder(limits.decode_memory_bytes, file_bytes=DERIVATIVE_BYTES_MAX))
    except NeedMissing as error:
        channel.send(wire_json({"missing": error.reason}))
        return
    channel.send(wire_json({"layers": layers}))
    while serve_one(channel, limits, magic):
        pass


def serve_one(channel: socket.socket, limits: Limits, magic: Any) -> bool:
    """Answer one request; False at the end of the channel."""
    request, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES, 2)
    if not request:
        return False
    _limit_cpu(limits.decode_cpu_s)
    try:
        reply = _verdict(json.loads(request), descriptors, limits, magic)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    channel.send(wire_json(reply))
    return True


def _verdict(request: dict[str, Any], descriptors: Sequence[int], limits: Limits, magic: Any) -> dict[str, Any]:
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
    structure = lengths.walk(media_type.name, source, limits)
    reply = derive.decode_and_derive(request, source, media_type, output, limits)
    reply["findings"] |= structure
    return reply | {"media_type": media_type.name}


def _limit_cpu(seconds: int) -> None:
    """SIGXCPU ends this process when the item has used `seconds` of CPU time (whole seconds is what rlimits have)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + seconds, hard))
