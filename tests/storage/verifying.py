"""What tests of verification share: a verdict on a document, and documents that say something else."""

from __future__ import annotations

from typing import Any

import msgspec

from contracts.digest import canonical_digest
from contracts.receipt import Receipt, receipt_id
from storage.disk_blobs import DiskBlobStore
from storage.verify import Verdict, verify_receipt
from tests.receipt_samples import changed


def verify(document: Receipt, blobs: DiskBlobStore) -> Verdict:
    """Verify a receipt under the id that its bytes have."""
    data = document.to_bytes()
    return verify_receipt(receipt_id(data), data, blobs)


def rules(verdict: Verdict) -> set[str]:
    """The rules of the findings."""
    return {finding.rule for finding in verdict.findings}


def with_answer(document: Receipt, **values: Any) -> dict[str, Any]:
    """The answer's record with other values."""
    assert document.answer is not None
    return {"answer": msgspec.structs.replace(document.answer, **values)}


def with_question(document: Receipt, **values: Any) -> dict[str, Any]:
    """A question's document that was changed, with the digest that belongs to it."""
    assert document.question is not None
    asked = document.question | values
    return {"question": asked, "question_digest": str(canonical_digest(asked))}


def with_body(blobs: DiskBlobStore, document: Receipt, body: bytes) -> Receipt:
    """The receipt of an attempt that sent `body`, which is committed."""
    digest, size_bytes = blobs.put(body)
    assert document.request is not None
    return changed(
        document, request=msgspec.structs.replace(document.request, digest=str(digest), size_bytes=size_bytes)
    )
