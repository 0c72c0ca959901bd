"""What the stages hand on: an acquisition's record and an inspection's.

Both are values of the receipt: everything in them has a JSON form, and neither holds a query string that its policy
does not allow, a header that was not asked for, or a byte of the media.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.errors import EvidenceError, FetchError, FetchUnavailable, InputError, IntegrityError, PolicyDenied
from contracts.receipt import timestamp

RECORDED_HEADERS = (
    *("content-type", "content-length", "content-encoding", "etag", "last-modified", "date", "server", "location"),
    "retry-after",
)
"""The response headers that a hop keeps, lower-case; a `location` without its query, as URLs are."""

SOURCE_ERRORS: Mapping[str, type[EvidenceError]] = {
    error.__name__: error for error in (PolicyDenied, FetchError, FetchUnavailable, InputError, IntegrityError)
}
"""The classes of errors that a source can end with, by name."""


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """A TLS session: its version and cipher suite, and the digest of the peer's certificate (DER)."""

    version: str
    cipher: str
    certificate: Digest


@dataclass(frozen=True, slots=True)
class Hop:
    """One request of an acquisition, as far as it came.

    `url` is redacted as the policy says and `url_digest` of the whole. `answers` are the addresses that the name
    resolved to, also where they were refused; `vetted` those that passed (all or none), `dialled` the last one that was
    tried, which is the one that answered if there is a status. `headers` are those of `RECORDED_HEADERS` that came;
    `framing` is `content-length`, `chunked` or `until-close`.

    Times are seconds since the hop began: `resolved_s` when the addresses were known, `connected_s` when one accepted,
    `tls_s` when the TLS session stood (none of them on a connection that was kept from before), `seconds` when the
    head was there or the hop ended without.
    """

    url: str
    url_digest: Digest
    status: int | None = None
    vetted: tuple[str, ...] = ()
    dialled: str | None = None
    tls: TlsFacts | None = None
    headers: tuple[tuple[str, str], ...] = ()
    framing: str | None = None
    seconds: float = 0.0
    answers: tuple[str, ...] = ()
    resolved_s: float | None = None
    connected_s: float | None = None
    tls_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a source was not had: the class of our error, its rule and reason. `retry_after_s` is what the server asked
    for, within bounds."""

    error: str
    rule: str
    reason: str
    retry_after_s: float | None = None

    @classmethod
    def of(cls, error: EvidenceError, retry_after_s: float | None = None) -> Failure:
        """Raises KeyError for an error that no source ends with."""
        return cls(SOURCE_ERRORS[type(error).__name__].__name__, error.rule, error.reason, retry_after_s)

    @property
    def can_pass(self) -> bool:
        """Whether asking again can help."""
        return SOURCE_ERRORS[self.error].retryable

    def to_error(self) -> EvidenceError:
        """The error itself."""
        return SOURCE_ERRORS[self.error](self.rule, self.reason)


@dataclass(frozen=True, slots=True)
class AcquisitionRecord:
    """One acquisition, had or not: `digest` is there exactly where `failure` is None or says that the bytes are not
    the expected ones.

    `source` is `url`, `file`, `s3` or `blob`; `requested` names it (a URL redacted as the policy says), with the digest
    of its whole; `origin` has facts of a source that is no URL (bucket, key, version id). `policy` is the name of the
    network policy and `policy_digest` its identity; `layers` names the isolation in force around the fetcher and
    `fetcher` its version; `media_type_claimed` is the server's word, recorded and never trusted. `started_at` is in
    epoch seconds; `tries` counts all tries, of which this is the last.
    """

    source: str
    requested: str
    requested_digest: Digest
    started_at: float
    seconds: float
    hops: tuple[Hop, ...] = ()
    size_bytes: int | None = None
    digest: Digest | None = None
    expected_digest: Digest | None = None
    media_type_claimed: str | None = None
    policy: str | None = None
    policy_digest: Digest | None = None
    layers: tuple[str, ...] = ()
    fetcher: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict, hash=False)
    tries: int = 1
    failure: Failure | None = None

    @property
    def final(self) -> str:
        """The URL that the bytes came from in the end."""
        return self.hops[-1].url if self.hops else self.requested

    def had(self) -> tuple[Digest, int]:
        """Digest and size of what was acquired. Raises the error that the acquisition ended with."""
        if self.failure is not None:
            raise self.failure.to_error()
        if self.digest is None or self.size_bytes is None:
            raise InputError("record-incomplete", "an acquisition without bytes and without a failure")
        return self.digest, self.size_bytes

    def to_json(self) -> dict[str, Any]:
        """The form that receipts and the ledger hold: digests and decimals as text, and `final` spelled out."""
        return {**_plain(self), "started_at": timestamp(self.started_at), "final": self.final}


def _plain(value: Any) -> Any:
    """`value` in JSON's types. Seconds are decimals of milliseconds: identities hold no floats."""
    if isinstance(value, Digest):
        return str(value)
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


@dataclass(frozen=True, slots=True)
class Derivative:
    """What the decoder made for a worker: its bytes are in `data`; `transformation` says exactly how."""

    data: bytes
    media_type: str
    transformation: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A medium that was fully decoded inside bounds.

    `findings` are facts for people (format, dimensions, duration, …), `layers` the isolation in force around the
    decoder, `ms` the wall time of the decode.
    """

    artifact: Artifact
    findings: dict[str, Any]
    layers: tuple[str, ...]
    ms: float
    derivative: Derivative | None = None
