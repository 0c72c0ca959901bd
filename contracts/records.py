"""What the stages hand on: an acquisition's record and an inspection's.

Both are values of the receipt: everything in them has a JSON form, and neither holds a query string, a header
that was not asked for, or a byte of the media.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from contracts.artifact import Artifact
from contracts.digest import Digest


@dataclass(frozen=True, slots=True)
class Hop:
    """One request of an acquisition. `url` is redacted; `vetted` are all addresses that passed, `dialled` the one
    that was used."""

    url: str
    status: int | None
    vetted: tuple[str, ...]
    dialled: str | None
    tls: str | None


@dataclass(frozen=True, slots=True)
class AcquisitionRecord:
    """One acquisition. `source` is `url` or `file`; `hops` is empty for a file.

    `policy` is the name of the network policy and `policy_digest` its identity; `layers` names the isolation in
    force around the fetcher; `media_type_claimed` is the server's word, recorded and never trusted.
    """

    source: str
    hops: tuple[Hop, ...]
    size_bytes: int
    digest: Digest
    media_type_claimed: str | None
    policy: str | None
    policy_digest: Digest | None
    layers: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The form that receipts hold."""
        return {
            **asdict(self),
            "hops": [asdict(hop) | {"vetted": list(hop.vetted)} for hop in self.hops],
            "layers": list(self.layers),
            "digest": str(self.digest),
            "policy_digest": None if self.policy_digest is None else str(self.policy_digest),
            "seconds": f"{self.seconds:.3f}",
        }


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
