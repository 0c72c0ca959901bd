"""A question's object, as it is printed and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.digest import wire_json
from contracts.errors import InputError
from contracts.outcome import Outcome
from contracts.result import QuestionResult
from storage.disk_blobs import DiskBlobStore
from tests.receipt_samples import LENGTH, receipt, result_of

KEYS = [
    "id",
    "outcome",
    "rule",
    "reason",
    "answer",
    "structured",
    "partial",
    "finish_reason",
    "usage",
    "parts",
    "attempt",
    "question_digest",
    "request_digest",
    "stream_digest",
    "receipt",
    "seconds",
    "labels",
    "engine",
    "from_ledger",
]


@pytest.fixture
def complete(tmp_path: Path) -> QuestionResult:
    """The result of a complete attempt."""
    return result_of(receipt(DiskBlobStore(tmp_path)))


def test_the_object_has_exactly_the_documented_keys(complete: QuestionResult) -> None:
    """Every key is always there, in one order."""
    document = complete.to_json()
    assert list(document) == KEYS
    assert list(document["engine"]) == ["release", "identity", "calibration_model"]
    assert all(list(part) == ["kind", "artifact", "locator"] for part in document["parts"])


def test_reading_is_the_inverse_of_writing(complete: QuestionResult) -> None:
    """Through JSON bytes and back, nothing changes."""
    assert QuestionResult.from_json(json.loads(wire_json(complete.to_json()))) == complete


def test_a_complete_attempt_has_an_answer(complete: QuestionResult) -> None:
    """The text is the answer and nothing is partial."""
    assert (complete.answer, complete.partial) == ("Two circles", None)
    assert complete.usage == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    assert [part.kind for part in complete.parts] == ["image", "text", "video"]


def test_text_that_its_budget_ended_is_no_answer(tmp_path: Path) -> None:
    """A length-limited attempt's text is partial."""
    limited = result_of(receipt(DiskBlobStore(tmp_path), LENGTH), text="Two ci")
    assert (limited.answer, limited.partial, limited.outcome) == (None, "Two ci", Outcome.LENGTH_LIMITED)


def test_no_other_outcome_can_have_an_answer(complete: QuestionResult) -> None:
    """The constructor refuses an answer beside any outcome but complete."""
    with pytest.raises(InputError, match="result-answer"):
        replace(complete, outcome=Outcome.ANSWER_INVALID)


@pytest.mark.parametrize("key", KEYS[:-1])
def test_an_object_without_one_of_its_keys_is_refused(complete: QuestionResult, key: str) -> None:
    """What the ledger holds is read strictly."""
    document = complete.to_json()
    del document[key]
    with pytest.raises(InputError, match="result-form"):
        QuestionResult.from_json(document)
