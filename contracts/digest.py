"""The only place that hashes, and the only two serialisers.

`Digest` is a sha256 value (FIPS 180-4) with one text form, `sha256:<64 lowercase hex>`. `wire_json` makes request
bodies (insertion order, compact); `canonical_json` makes identities (RFC 8785). Every read out of a store goes
through `VerifyingReader`, which refuses a short, long or different stream before it reports the end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import rfc8785

from contracts.errors import InputError, IntegrityError

CHUNK_BYTES = 1 << 18
EXACT_NUMBERS = 2**53
"""From here on integers are no longer exact in a double (RFC 7493 section 2.2), so that two readers see two values."""

MAX_CANONICAL_DEPTH = 128
"""Levels of an identity: a receipt holds a schema of 64 levels within some of its own; the serialiser recurses."""

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A sha256 value. Equal digests mean equal bytes; two forms of one value do not exist."""

    hex: str

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.hex):
            raise InputError("digest-form", f"expected 64 lowercase hex digits, got {len(self.hex)} characters")

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read `sha256:<hex>`. Raises InputError for anything else, also for other algorithms."""
        algorithm, _, value = text.partition(":")
        if algorithm != "sha256":
            raise InputError("digest-algorithm", "expected a digest of the form sha256:<64 hex>")
        return cls(value)

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """The digest of `data`."""
        return cls(hashlib.sha256(data).hexdigest())

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


class Hasher:
    """A running digest and byte count."""

    __slots__ = ("_sha256", "size_bytes")

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.size_bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)
        self.size_bytes += len(data)

    def digest(self) -> Digest:
        """The digest of all bytes taken so far."""
        return Digest(self._sha256.hexdigest())


class RawBytes(Protocol):
    """What is read and then closed: a file, a body of an answer."""

    def read(self, limit: int, /) -> bytes:
        """Up to `limit` bytes; b"" is the end."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class VerifyingReader:
    """Reads a binary stream that must have exactly `digest` and `size_bytes`.

    `read` raises IntegrityError at the first byte too many, and at the end if bytes are missing or differ; the
    empty result that signals the end is only ever given for bytes that verified. Nothing is known before it: a `with`
    block that ends well before the reader came there raises IntegrityError (`unverified`), so that bytes which nobody
    checked cannot pass for checked ones.
    """

    def __init__(self, raw: RawBytes, digest: Digest, size_bytes: int | None = None) -> None:
        self._raw = raw
        self._hasher = Hasher()
        self._digest = digest
        self._size_bytes = size_bytes
        self._verified: bool | None = None  # False: refused, and whoever reads was told

    @property
    def verified(self) -> bool:
        """Whether all bytes came and are the right ones; False also as long as the end is not reached."""
        return self._verified is True

    def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Up to `limit` bytes, or b"" at the verified end."""
        data = self._raw.read(limit)
        self._hasher.update(data)
        got = self._hasher.size_bytes
        if self._size_bytes is not None and got > self._size_bytes:
            raise self._refused("size", f"{self._digest}: expected {self._size_bytes} bytes, got more")
        if not data and limit:
            self._check_end(got)
        return data

    def _check_end(self, got: int) -> None:
        if self._size_bytes is not None and got != self._size_bytes:
            raise self._refused("size", f"{self._digest}: expected {self._size_bytes} bytes, got {got}")
        actual = self._hasher.digest()
        if actual != self._digest:
            raise self._refused("digest", f"expected {self._digest}, the {got} bytes have {actual}")
        self._verified = True

    def _refused(self, rule: str, reason: str) -> IntegrityError:
        self._verified = False
        return IntegrityError(rule, reason)

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read_all(self) -> bytes:
        """All bytes, verified."""
        return b"".join(self)

    def read_to_end(self) -> int:
        """Read what is left, keep nothing, and return the size of all in bytes: the whole is verified then."""
        for _ in self:
            pass
        return self._hasher.size_bytes

    def close(self) -> None:
        """Close the stream underneath; what was read is verified only if `verified` says so."""
        self._raw.close()

    def __enter__(self) -> VerifyingReader:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self.close()
        if failed is None and self._verified is None:
            got = self._hasher.size_bytes
            raise IntegrityError(
                "unverified", f"{self._digest}: closed after {got} bytes, before the end that verifies"
            )


def wire_json(value: Any) -> bytes:
    """Serialise a request body: insertion order, no spaces, UTF-8. Raises ValueError for NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def canonical_json(value: Any) -> bytes:
    """Serialise an identity: JSON Canonicalization Scheme (RFC 8785). Read back and written again, it is the same.

    Raises InputError for what has no canonical form (integers beyond 2^53, NaN, lone surrogates, other types), what is
    nested deeper than `MAX_CANONICAL_DEPTH`, and floats of 2^53 or more: RFC 8785 writes 1e16 as 10000000000000000,
    which reads back as an integer that has no canonical form.
    """
    _check_canonical(value)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InputError("canonical-json", f"the value has no canonical form: {type(error).__name__}") from error


def _check_canonical(value: Any) -> None:
    """What rfc8785 would write without a word, or recurse into; level by level, so that it costs no stack."""
    level = [value]
    for _ in range(MAX_CANONICAL_DEPTH + 1):
        following: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                following.extend(node.values())
            elif isinstance(node, list | tuple):
                following.extend(node)
            elif isinstance(node, float) and abs(node) >= EXACT_NUMBERS:
                raise InputError("canonical-json", "a number of 2^53 or beyond has no canonical form that reads back")
        if not following:
            return
        level = following
    raise InputError("canonical-json", f"expected at most {MAX_CANONICAL_DEPTH} levels, got more")


def canonical_digest(value: Any) -> Digest:
    """The identity of `value`: the digest of its canonical JSON."""
    return Digest.of(canonical_json(value))
