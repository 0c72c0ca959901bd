"""What crosses between the decoder pool and its confined children: bounds, and the reply as it may be.

One JSON object per datagram of a SOCK_SEQPACKET channel. A child is not believed: what is not of this form breaks the
protocol, and the pool kills who breaks it.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from typing import Any, cast

from contracts.derivation import Derivation
from contracts.digest import wire_json
from contracts.errors import ChildFailed
from contracts.records import Derivative
from contracts.signatures import signature_of

REQUEST_BYTES = 4_096
REPLY_BYTES = 16_384
DERIVATIVE_BYTES_MAX = 64 << 20  # 64 frames of 1024 x 1024; also bounds what a child may write at all

_HEAD_BYTES = 16  # every derivative's signature is in them
_FINDINGS_MAX = 32
_NAME_CHARS = 64
_TEXT_CHARS = 1_024
_NUMBERS_MAX = 64
_LAST_WORD = b'{"ended":'


@dataclass(frozen=True, slots=True)
class Reply:
    """A child's verdict: refused when `rule` is set, else accepted as `media_type` with `findings`.

    `transformation` and `derivative_bytes` are set together, when the child made a derivative.
    """

    rule: str | None = None
    reason: str = ""
    media_type: str = ""
    findings: dict[str, Any] = field(default_factory=dict)
    transformation: dict[str, Any] | None = None
    derivative_bytes: int = 0


def parse_object(data: bytes) -> dict[str, Any]:
    """One JSON object. Raises ChildFailed `decoder-protocol`, also for a datagram over REPLY_BYTES."""
    if len(data) > REPLY_BYTES:
        raise ChildFailed("decoder-protocol", f"a reply of more than {REPLY_BYTES} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ChildFailed("decoder-protocol", f"{len(data)} bytes that are no JSON") from error
    if not isinstance(value, dict):
        raise ChildFailed("decoder-protocol", f"expected an object, got a {type(value).__name__}")
    return value


def last_word(code: int) -> bytes:
    """What stands last on a decoder's channel: its return code, negative for the signal that ended it."""
    return wire_json({"ended": code})


def ended_by(data: bytes) -> int | None:
    """The return code in a last word; None for every other datagram. Raises ChildFailed `decoder-protocol`."""
    if not data.startswith(_LAST_WORD):
        return None
    code = parse_object(data)["ended"]
    if type(code) is not int or not -signal.NSIG < code <= 255:
        raise ChildFailed("decoder-protocol", f"expected a return code, got a {type(code).__name__}")
    return code


def parse_reply(data: bytes) -> Reply:
    """The verdict in a datagram. Raises ChildFailed `decoder-protocol` for anything that is none."""
    value = parse_object(data)
    if "rule" in value:
        return Reply(rule=_text(value.get("rule"), _NAME_CHARS), reason=_text(value.get("reason"), _TEXT_CHARS))
    findings, made = _flat(value.get("findings")), value.get("transformation")
    media_type = _text(value.get("media_type"), _NAME_CHARS)
    if made is None:
        return Reply(media_type=media_type, findings=findings)
    size = value.get("derivative_bytes")
    if type(size) is not int or not 0 < size <= DERIVATIVE_BYTES_MAX:
        raise ChildFailed("decoder-protocol", "a derivative without a size in bounds")
    return Reply(media_type=media_type, findings=findings, transformation=_flat(made), derivative_bytes=size)


def read_derivative(reply: Reply, output: int | None, asked: Derivation | None) -> Derivative | None:
    """What the child made, from the descriptor `output`; None where nothing was made.

    Raises ChildFailed `decoder-protocol` where nobody asked, where the bytes are not as many or not of the type that
    was asked for, and where the transformation says another recipe.
    """
    if reply.transformation is None:
        return None
    if asked is None or output is None:
        raise ChildFailed("decoder-protocol", "a derivative that nobody asked for")
    data = os.pread(output, reply.derivative_bytes, 0)
    if len(data) != reply.derivative_bytes or signature_of(data[:_HEAD_BYTES]) != asked.media_type:
        raise ChildFailed("decoder-protocol", f"{len(data)} bytes that are not the derivative that was announced")
    if not asked.fixed().items() <= reply.transformation.items():
        raise ChildFailed("decoder-protocol", "a transformation that is not the one that was asked for")
    return Derivative(data, asked.media_type, reply.transformation)


def _flat(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _FINDINGS_MAX:
        raise ChildFailed("decoder-protocol", f"expected an object of at most {_FINDINGS_MAX} facts")
    return {_text(name, _NAME_CHARS): _fact(fact) for name, fact in value.items()}


def _fact(value: object) -> int | str | list[int]:
    if isinstance(value, str):
        return _text(value, _TEXT_CHARS)
    if _is_exact(value):
        return cast("int", value)
    if isinstance(value, list) and len(value) <= _NUMBERS_MAX and all(_is_exact(item) for item in value):
        return value
    raise ChildFailed("decoder-protocol", f"expected a fact that is a whole number or text, got {type(value).__name__}")


def _is_exact(value: object) -> bool:
    """Whether JSON readers everywhere read the same whole number (RFC 8785 and its I-JSON, RFC 7493 §2.2)."""
    return type(value) is int and abs(value) < 1 << 53


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise ChildFailed("decoder-protocol", f"expected printable text of at most {longest} characters")
    return value
