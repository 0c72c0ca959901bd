"""Verify a receipt from its bytes and the store alone, through the code that made it. Needs no ledger, no network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from contracts.digest import Digest
from contracts.errors import BlobMissing, InputError, IntegrityError, StorageError
from contracts.ports import BlobStore
from contracts.receipt import Receipt, parse_receipt, receipt_id
from contracts.receipt_checks import (
    UNVERIFIABLE,
    Finding,
    check_absent_stream,
    check_documents,
    check_request,
    check_stream_bytes,
)


class VerdictName(str, Enum):
    """`UNVERIFIABLE`: nothing is wrong, but something needed to say so is not here."""

    VALID = "valid"
    INVALID = "invalid"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one receipt; `findings` is empty exactly for a valid one."""

    receipt: Digest
    findings: tuple[Finding, ...]

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
        }


def verify_receipt(named: Digest, data: bytes, blobs: BlobStore) -> Verdict:
    """Verify the receipt that goes by the id `named` and has the bytes `data`.

    Every blob it names is read to its end and hashed. Raises nothing: what cannot be read is a finding.
    """
    actual = receipt_id(data)
    if actual != named:
        return Verdict(named, (Finding("receipt-id", f"expected {named}, the bytes have {actual}", str(named)),))
    try:
        receipt = parse_receipt(data)
        return Verdict(named, tuple(_findings(receipt, blobs)))
    except InputError as error:
        return Verdict(named, (Finding(error.rule, error.reason, str(named)),))


def _findings(receipt: Receipt, blobs: BlobStore) -> Iterator[Finding]:
    yield from check_documents(receipt)
    for digest, size_bytes in _media(receipt).items():
        yield from _read(blobs, digest, size_bytes, None)
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
