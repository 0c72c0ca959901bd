"""Answers that the ledger already has: the same question, put to the same serve identity.

What is reused is what can be proven: the earlier receipt is verified from the store and the text is the one that it
names. A row alone is never believed; where something does not hold, the question is asked again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.receipt import Receipt, parse_receipt
from contracts.request import ChatRequest
from pipeline.workshop import Workshop
from storage.verify import VerdictName, verify_receipt

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """The receipt whose request and stream answer, its id, and the text that it proves."""

    id: Digest
    receipt: Receipt
    text: str
    structured: Any


def find_answer(shop: Workshop, request: ChatRequest) -> FoundAnswer | None:
    """What this tenant's ledger has for `request`, verified; None if it has nothing that holds."""
    storage, identity = shop.storage, shop.release.identity()
    found = storage.receipts.find_answer(shop.settings.tenant, request.question_digest, identity)
    if found is None:
        return None
    verdict = verify_receipt(found.receipt, found.data, storage.blobs)
    receipt = parse_receipt(found.data) if verdict.verdict is VerdictName.VALID else None
    if receipt is not None and receipt.limits.digest != str(shop.limits.digest()):
        return None  # under other limits the same stream may have another end
    told = found.result.answer if found.result.answer is not None else found.result.partial
    if receipt is None or receipt.answer is None or told is None or not _is_text_of(told, receipt):
        rules = ", ".join(finding.rule for finding in verdict.findings) or "the row is not what the receipt says"
        _log.warning("receipt %s is not reused: %s", found.receipt, rules)
        return None
    structured = json.loads(told) if receipt.answer.schema_digest and receipt.outcome.is_answer else None
    original = found.receipt if receipt.reused is None else Digest.parse(receipt.reused)
    return FoundAnswer(original, receipt, told, structured)


def _is_text_of(text: str, receipt: Receipt) -> bool:
    try:
        named = None if receipt.answer is None else Digest.parse(receipt.answer.text_digest)
    except InputError:
        return False
    return Digest.of(text.encode()) == named
