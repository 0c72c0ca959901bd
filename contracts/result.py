"""What people and machines are told about one question: the object that `run`, `demo` and `results` print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.outcome import Outcome
from contracts.receipt import Receipt


@dataclass(frozen=True, slots=True)
class ResultPart:
    """One part, in order; `artifact` (a digest's text) and `locator` are None for texts and for what was not had."""

    kind: str
    artifact: str | None
    locator: dict[str, Any] | None = field(hash=False)


@dataclass(frozen=True, slots=True)
class ResultEngine:
    """The release by name, its serve identity, and whether its model is the calibration model."""

    release: str
    identity: str
    calibration_model: bool


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """How a question ended. `answer` and `structured` exist only for `complete`; `partial` is text that is no answer.

    `attempt`, `receipt` and the digests are text; `receipt` is None only where there was no attempt. `from_ledger`
    tells that nothing was computed: an earlier attempt had answered the same question against the same identity.
    """

    id: str
    outcome: Outcome
    rule: str | None
    reason: str | None
    answer: str | None
    structured: Any = field(hash=False)
    partial: str | None
    finish_reason: str | None
    usage: dict[str, int] | None = field(hash=False)
    parts: tuple[ResultPart, ...]
    attempt: str | None
    question_digest: str | None
    request_digest: str | None
    stream_digest: str | None
    receipt: str | None
    seconds: float
    labels: dict[str, Any] = field(hash=False)
    engine: ResultEngine
    from_ledger: bool = False

    def __post_init__(self) -> None:
        if not self.outcome.is_answer and (self.answer is not None or self.structured is not None):
            raise InputError("result-answer", f"{self.outcome.value} is not an answer")

    @classmethod
    def of_receipt(
        cls,
        receipt: Receipt,
        receipt_id: Digest,
        *,
        text: str | None,
        structured: Any = None,
        seconds: float,
        labels: Mapping[str, Any],
    ) -> QuestionResult:
        """What a receipt says, with what is not in it. `text` becomes the answer only if the outcome is one."""
        answer, complete = receipt.answer, receipt.outcome.is_answer
        usage = None if answer is None else answer.usage
        return cls(
            id=receipt.question_id,
            outcome=receipt.outcome,
            rule=receipt.rule,
            reason=receipt.reason,
            answer=text if complete else None,
            structured=structured if complete else None,
            partial=None if complete else text,
            finish_reason=None if answer is None else answer.finish_reason,
            usage=None if usage is None else {name: getattr(usage, name) for name in usage.__struct_fields__},
            parts=_parts(receipt),
            attempt=receipt.attempt.id,
            question_digest=receipt.question_digest,
            request_digest=None if receipt.request is None else receipt.request.digest,
            stream_digest=None if receipt.stream is None else receipt.stream.digest,
            receipt=str(receipt_id),
            seconds=seconds,
            labels=dict(labels),
            engine=_engine(receipt),
            from_ledger=receipt.reused is not None,
        )

    @classmethod
    def untried(
        cls, question_id: str, outcome: Outcome, rule: str, reason: str, labels: Mapping[str, Any], engine: ResultEngine
    ) -> QuestionResult:
        """A question whose run ended before it was tried: there is no attempt, hence no receipt."""
        return cls(
            id=question_id,
            outcome=outcome,
            rule=rule,
            reason=reason,
            answer=None,
            structured=None,
            partial=None,
            finish_reason=None,
            usage=None,
            parts=(),
            attempt=None,
            question_digest=None,
            request_digest=None,
            stream_digest=None,
            receipt=None,
            seconds=0.0,
            labels=dict(labels),
            engine=engine,
        )

    def to_json(self) -> dict[str, Any]:
        """The keys of a question's object, in the order in which they are printed."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        document["outcome"] = self.outcome.value
        document["parts"] = [asdict(part) for part in self.parts]
        document["engine"] = asdict(self.engine)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> QuestionResult:
        """The result that `to_json` gave. Raises InputError for anything else."""
        try:
            return cls(
                **{
                    **document,
                    "outcome": Outcome(document["outcome"]),
                    "parts": tuple(ResultPart(**part) for part in document["parts"]),
                    "engine": ResultEngine(**document["engine"]),
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("result-form", f"not a question's result: {type(error).__name__}") from error


def _parts(receipt: Receipt) -> tuple[ResultPart, ...]:
    return tuple(
        ResultPart(part.kind, None if part.artifact is None else part.artifact.digest, part.locator)
        for part in receipt.parts
    )


def _engine(receipt: Receipt) -> ResultEngine:
    engine = receipt.engine
    return ResultEngine(str(engine.release.get("name", "")), engine.identity, engine.calibration_model)
