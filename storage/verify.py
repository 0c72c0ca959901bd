"""Verify a receipt from its bytes and the store alone, through the code that made it. Needs no ledger, no network.

Media that retention removed cannot be read again, and that is no loss: whoever has the ledger says when they were given
up, and a receipt of which everything else holds is valid, with a note for each. Without that word they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from contracts.digest import Digest
from contracts.errors import BlobMissing, InputError, IntegrityError, StorageError
from contracts.ports import BlobStore
from contracts.receipt import Receipt, parse_receipt, receipt_id, timestamp
from contracts.receipt_checks import (
    UNVERIFIABLE,
    Finding,
    check_absent_stream,
    check_documents,
    check_request,
    check_stream_bytes,
)

MEDIA_RETIRED = "media-retired"
"""The rule of the notes on media that are gone because their retention was over."""


class VerdictName(str, Enum):
    """`UNVERIFIABLE`: nothing is wrong, but something needed to say so is not here."""

    VALID = "valid"
    INVALID = "invalid"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one receipt; `findings` is empty exactly for a valid one, `notes` say what was not read, and why
    that is in order."""

    receipt: Digest
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> VerdictName:
        """The worst of the findings."""
        if any(finding.rule not in UNVERIFIABLE for finding in self.findings):
            return VerdictName.INVALID
        return VerdictName.UNVERIFIABLE if self.findings else VerdictName.VALID

    def to_json(self) -> dict[str, Any]:
        """The object of `receipts verify`."""
        return {
            "receipt": str(self.receipt),
            "verdict": self.verdict.value,
            "findings": [finding.to_json() for finding in self.findings],
            "notes": [note.to_json() for note in self.notes],
        }


def verify_receipt(named: Digest, data: bytes, blobs: BlobStore, *, retired_at: float | None = None) -> Verdict:
    """Verify the receipt that goes by the id `named` and has the bytes `data`.

    Every blob it names is read to its end and hashed. `retired_at` is when its media were given up (epoch s). Raises
    nothing: what cannot be read is a finding.
    """
    actual = receipt_id(data)
    if actual != named:
        return Verdict(named, (Finding("receipt-id", f"expected {named}, the bytes have {actual}", str(named)),))
    try:
        receipt = parse_receipt(data)
        found = tuple(_findings(receipt, blobs, retired_at))
        notes = tuple(each for each in found if each.rule == MEDIA_RETIRED)
        return Verdict(named, tuple(each for each in found if each.rule != MEDIA_RETIRED), notes)
    except InputError as error:
        return Verdict(named, (Finding(error.rule, error.reason, str(named)),))


def _findings(receipt: Receipt, blobs: BlobStore, retired_at: float | None) -> Iterator[Finding]:
    yield from check_documents(receipt)
    for digest, size_bytes in _media(receipt).items():
        for finding in _read(blobs, digest, size_bytes, None):
            is_missing = finding.rule == "blob-missing"
            yield finding if retired_at is None or not is_missing else _retired(digest, retired_at)
    if receipt.request is not None:
        body: list[bytes] = []
        damage = list(_read(blobs, receipt.request.digest, receipt.request.size_bytes, body))
        yield from damage or check_request(receipt, b"".join(body))
    if receipt.stream is not None:
        wire: list[bytes] = []
        damage = list(_read(blobs, receipt.stream.digest, receipt.stream.size_bytes, wire))
        yield from damage or check_stream_bytes(receipt, receipt.stream, wire)
    else:
        yield from check_absent_stream(receipt)


def _retired(digest: str, at: float) -> Finding:
    return Finding(MEDIA_RETIRED, f"media removed by retention on {timestamp(at)[:10]}", digest)


def _media(receipt: Receipt) -> dict[str, int | None]:
    """The digests and sizes of all media, originals too, each once."""
    media: dict[str, int | None] = {part.original: None for part in receipt.parts if part.original is not None}
    artifacts = (part.artifact for part in receipt.parts if part.artifact is not None)
    return media | {artifact.digest: artifact.size_bytes for artifact in artifacts}


def _read(blobs: BlobStore, name: str, size_bytes: int | None, into: list[bytes] | None) -> Iterator[Finding]:
    """Read a blob to its verified end, into a list if one is given; what is wrong with it, naming it in full."""
    try:
        with blobs.open(Digest.parse(name), size_bytes) as reader:
            for chunk in reader:
                if into is not None:
                    into.append(chunk)
    except BlobMissing as error:
        yield Finding("blob-missing", error.reason, name)
    except IntegrityError as error:
        yield Finding(f"blob-{error.rule}", error.reason, name)
    except StorageError as error:
        yield Finding("blob-unreadable", error.reason, name)
