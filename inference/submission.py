"""What came of one request to a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contracts.chunk import Usage
from contracts.completion import Completion
from contracts.digest import Digest
from contracts.outcome import Outcome
from contracts.profile_errors import ErrorFamily


@dataclass(frozen=True, slots=True)
class Submission:
    """What came of one request.

    `stream` is the raw answer, `stream_digest` its digest (of no bytes where no stream began). `text` is there only
    where the stream was whole; what came before a failure is `partial_text`. `structured` is the answer as JSON where
    somebody checked it against a form. `http_request_id` is what the worker echoed, `status` its HTTP status, `defect`
    the engine's known defect that fits. `error` is the family of what the engine said instead of an answer: it tells
    whether another try can help.
    """

    outcome: Outcome
    rule: str | None
    reason: str | None
    text: str | None
    partial_text: str | None
    reasoning: str | None
    usage: Usage | None
    finish_reason: str | None
    events: int
    stream: bytes
    stream_digest: Digest
    status: int | None
    http_request_id: str | None
    seconds: float
    defect: str | None = None
    structured: Any = None
    error: ErrorFamily | None = None


def of_stream(
    completion: Completion,
    *,
    stream: bytes,
    status: int | None,
    http_request_id: str | None,
    seconds: float,
    error: ErrorFamily | None = None,
) -> Submission:
    """What came of a request whose answer was judged as a stream."""
    return Submission(
        outcome=completion.outcome,
        rule=completion.rule,
        reason=completion.reason,
        text=completion.text,
        partial_text=completion.partial_text,
        reasoning=completion.reasoning,
        usage=completion.usage,
        finish_reason=completion.finish_reason,
        events=completion.events,
        stream=stream,
        stream_digest=completion.stream_digest,
        status=status,
        http_request_id=http_request_id,
        seconds=seconds,
        defect=completion.defect,
        error=error,
    )


def refused(
    outcome: Outcome,
    rule: str,
    reason: str,
    *,
    status: int | None,
    http_request_id: str | None,
    seconds: float,
    error: ErrorFamily | None = None,
) -> Submission:
    """What came of a request whose answer was no stream to begin with."""
    return Submission(
        outcome=outcome,
        rule=rule,
        reason=reason,
        text=None,
        partial_text=None,
        reasoning=None,
        usage=None,
        finish_reason=None,
        events=0,
        stream=b"",
        stream_digest=Digest.of(b""),
        status=status,
        http_request_id=http_request_id,
        seconds=seconds,
        error=error,
    )
