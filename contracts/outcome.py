"""The closed list of outcomes: every attempt ends with exactly one."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """How an attempt ended. Only `COMPLETE` is an answer."""

    COMPLETE = "complete"
    LENGTH_LIMITED = "length_limited"
    ANSWER_INVALID = "answer_invalid"
    INCOMPLETE = "incomplete"
    ENGINE_ERROR = "engine_error"
    PROTOCOL_VIOLATION = "protocol_violation"
    REFUSED = "refused"
    SOURCE_FAILED = "source_failed"
    UNAVAILABLE = "unavailable"
    LEASE_LOST = "lease_lost"
    CANCELED = "canceled"
    ABANDONED = "abandoned"

    @property
    def is_answer(self) -> bool:
        """Whether the attempt produced an answer that may be used as one."""
        return self is Outcome.COMPLETE


NEVER_SUBMITTED = frozenset({Outcome.REFUSED, Outcome.SOURCE_FAILED})
"""Outcomes of attempts that sent nothing to a worker: they carry no request and no stream digest."""

ENGINE_ANSWERED = frozenset({Outcome.COMPLETE, Outcome.LENGTH_LIMITED, Outcome.ANSWER_INVALID})
"""The stream was whole. Asked again, the ledger answers with these instead of the engine."""
