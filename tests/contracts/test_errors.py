"""The error tree: each class says whether a retry helps and what it ends an attempt with."""

from __future__ import annotations

import pytest

from contracts import errors
from contracts.errors import EvidenceError
from contracts.outcome import ENGINE_ANSWERED, Outcome


def _tree(root: type[EvidenceError]) -> list[type[EvidenceError]]:
    return [root, *(each for child in root.__subclasses__() for each in _tree(child))]


CLASSES = [each for each in _tree(EvidenceError) if each.__module__ == errors.__name__]
ENDS = {
    errors.InputError: (False, Outcome.REFUSED),
    errors.ContractRefused: (False, Outcome.REFUSED),
    errors.PolicyDenied: (False, Outcome.REFUSED),
    errors.MediaRejected: (False, Outcome.REFUSED),
    errors.FetchError: (False, Outcome.SOURCE_FAILED),
    errors.FetchUnavailable: (True, Outcome.SOURCE_FAILED),
    errors.IntegrityError: (False, Outcome.SOURCE_FAILED),
    errors.StreamViolation: (False, Outcome.PROTOCOL_VIOLATION),
    errors.EngineError: (False, Outcome.ENGINE_ERROR),
    errors.WorkerUnavailable: (True, Outcome.UNAVAILABLE),
    errors.LeaseError: (True, Outcome.LEASE_LOST),
    errors.StorageError: (True, Outcome.UNAVAILABLE),
    errors.ChildFailed: (True, Outcome.UNAVAILABLE),
}


@pytest.mark.parametrize("cls", ENDS, ids=lambda cls: cls.__name__)
def test_each_error_ends_an_attempt_with_its_outcome(cls: type[EvidenceError]) -> None:
    """And says whether asking again can help."""
    assert (cls.retryable, cls.outcome) == ENDS[cls]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_carries_a_rule_and_a_reason(cls: type[EvidenceError]) -> None:
    """Both are in its text, for logs that know nothing of the tree."""
    error = cls("some-rule", "expected 1, got 2")
    assert (error.rule, error.reason, str(error)) == ("some-rule", "expected 1, got 2", "some-rule: expected 1, got 2")
    assert isinstance(error, EvidenceError)
    assert cls.__doc__


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_error_makes_an_answer(cls: type[EvidenceError]) -> None:
    """The ledger answers again with what an engine answered, and never with an error."""
    assert cls.outcome not in ENGINE_ANSWERED
