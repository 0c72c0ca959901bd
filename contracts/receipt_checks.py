"""What must hold within a receipt, and between it and the bytes it names. Pure: the bytes are given.

1. Documents: every digest of a document in the receipt is recomputed; what is said twice is said alike.
2. Request: its body is, byte for byte, what the builder makes of the receipt (contracts.request_checks).
3. Stream: validated again by the machine that validated it first; it must come to the same end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from contracts.answer import check_answer, check_schema
from contracts.chunk import Usage
from contracts.completion import Completion, CompletionStream, Cut
from contracts.digest import Digest, canonical_digest
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.outcome import ENGINE_ANSWERED, Outcome
from contracts.profile import Profile, profile
from contracts.receipt import AnswerRecord, PartRecord, Receipt, StreamRecord, UsageRecord
from contracts.request_checks import request_faults

UNVERIFIABLE = frozenset({"blob-missing", "blob-unreadable", "profile-unknown", "limits-unknown"})
"""Rules of findings that do not say that the receipt is wrong, only that here nobody can tell."""

_MAY_BREAK_OFF = frozenset({Outcome.LEASE_LOST, Outcome.CANCELED})
"""What ends an attempt from outside, wherever its stream was: what had come is kept. It is never an answer."""

_CUTS = {cut.value: cut for cut in Cut}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold; `digest` names the bytes or the document concerned."""

    rule: str
    reason: str
    digest: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The form of the command line."""
        return {"rule": self.rule, "reason": self.reason, "digest": self.digest}


def check_documents(receipt: Receipt) -> Iterator[Finding]:
    """Everything that can be said without the store."""
    engine, limits = receipt.engine, receipt.limits
    yield from _recomputed("identity", engine.identity, engine.release)
    yield from _recomputed("limits-digest", limits.digest, limits.values)
    release = {"engine": engine.profile, "route": engine.route, "calibration_model": engine.calibration_model}
    for name, said in release.items():
        if engine.release.get(name) != said:
            yield Finding("release", f"the release's {name} is not what the receipt says", engine.identity)
    for part in receipt.parts:
        yield from _check_part(part)
    if receipt.question is not None and receipt.question_digest is not None:
        yield from _recomputed("question-digest", receipt.question_digest, receipt.question)
        yield from _check_question(receipt, receipt.question)


def check_request(receipt: Receipt, body: bytes) -> Iterator[Finding]:
    """The request's bytes against the receipt: they are exactly what the builder makes of it.

    The bytes are known to have the receipt's digest.
    """
    digest = receipt.request.digest if receipt.request else None
    known = _known(receipt)
    if isinstance(known, Finding):
        yield known
        return
    for rule, reason in request_faults(receipt, body, *known):
        yield Finding(rule, reason, digest)


def check_stream_bytes(receipt: Receipt, stream: StreamRecord, chunks: Iterable[bytes]) -> Iterator[Finding]:
    """Validate the stream again. Raises what reading `chunks` raises."""
    known = _known(receipt)
    if isinstance(known, Finding):
        yield known
        return
    engine, limits = known
    machine = CompletionStream(engine, route=receipt.engine.route, max_tokens=_max_tokens(receipt), limits=limits)
    for data in chunks:
        machine.feed(data)
    completion = _ended(receipt, machine)
    schema = (receipt.question or {}).get("answer_schema")
    if schema is not None:
        try:
            check_schema(_mapping(schema), limits)
            completion = check_answer(completion, schema, limits).completion
        except InputError as error:
            yield Finding(error.rule, error.reason, receipt.question_digest)
            return
    yield from _check_completion(receipt, stream, completion)


def check_absent_stream(receipt: Receipt) -> Iterator[Finding]:
    """What a receipt without a stream must not say: that one began and broke off."""
    if receipt.outcome is Outcome.INCOMPLETE:
        yield Finding("stream-absent", f"the receipt says {receipt.outcome.value}, and names no stream", None)


def _known(receipt: Receipt) -> tuple[Profile, Limits] | Finding:
    """The profile and the limits in force, or why nobody can tell here."""
    try:
        engine = profile(receipt.engine.profile)
    except InputError as error:
        return Finding("profile-unknown", error.reason, receipt.engine.identity)
    try:
        return engine, Limits().changed(receipt.limits.values)
    except InputError as error:
        rule = "limits-unknown" if error.rule == "limits-unknown" else "limits-value"
        return Finding(rule, error.reason, receipt.limits.digest)


def _mapping(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise InputError("schema-form", "the question's answer form is not an object")
    return schema


def _ended(receipt: Receipt, machine: CompletionStream) -> Completion:
    """The end of the bytes, or where the receipt says so, the end of somebody's patience or hold before it."""
    if receipt.outcome in _MAY_BREAK_OFF:
        return machine.cut(receipt.reason or receipt.outcome.value)
    cut = _CUTS.get(receipt.rule or "") if receipt.outcome is Outcome.INCOMPLETE else None
    return machine.finish() if cut is None else machine.cut(receipt.reason or cut.value, cut)


def _check_completion(receipt: Receipt, stream: StreamRecord, again: Completion) -> Iterator[Finding]:
    if receipt.outcome not in _MAY_BREAK_OFF and (again.outcome, again.rule) != (receipt.outcome, receipt.rule):
        told = f"the receipt says {receipt.outcome.value} by {receipt.rule}"
        came = f"the stream comes to {again.outcome.value} by {again.rule}"
        yield Finding("stream-outcome", f"{told}, {came}", stream.digest)
    if stream.events != again.events:
        yield Finding("stream-events", f"expected {stream.events} events, got {again.events}", stream.digest)
    if receipt.answer is not None:
        if receipt.outcome not in ENGINE_ANSWERED | _MAY_BREAK_OFF:
            yield Finding("answer-outcome", f"{receipt.outcome.value} has no answer, the receipt names one")
        yield from _check_answer_record(receipt.answer, again, stream.digest)


def _check_answer_record(answer: AnswerRecord, again: Completion, digest: str) -> Iterator[Finding]:
    text = again.text if again.text is not None else again.partial_text or ""
    if str(Digest.of(text.encode())) != answer.text_digest:
        yield Finding("answer-digest", "the stream's text is not the one the receipt names", answer.text_digest)
    if again.finish_reason != answer.finish_reason:
        yield Finding("answer-finish", "the stream's finish reason is not the receipt's", digest)
    if not _same_usage(answer.usage, again.usage):
        yield Finding("answer-usage", "the stream's usage is not the receipt's", digest)


def _same_usage(said: UsageRecord | None, counted: Usage | None) -> bool:
    if said is None or counted is None:
        return said is None and counted is None
    names = UsageRecord.__struct_fields__
    return all(getattr(said, name) == getattr(counted, name) for name in names)


def _check_part(part: PartRecord) -> Iterator[Finding]:
    if part.locator is not None and part.locator_digest is not None:
        yield from _recomputed("locator-digest", part.locator_digest, part.locator)
    if part.artifact is None:
        return
    derived = part.locator is not None and part.locator.get("kind") == "derived"
    if part.original is not None and not derived:
        yield Finding("original", f"part {part.index} names an original but no derivation", part.original)
    if derived and part.locator is not None and part.locator.get("parent") != part.original:
        yield Finding("original", f"part {part.index} is derived from other bytes than its original", part.original)
    record = part.acquisition or {}
    if record.get("failure") is not None:
        yield Finding("acquisition-failed", f"part {part.index} was used though its acquisition failed", None)
    acquired = record.get("digest")
    source = part.original or part.artifact.digest
    if acquired is not None and acquired != source:
        yield Finding("acquisition-digest", f"part {part.index}: other bytes were acquired than were used", source)
    if part.locator is not None and part.locator.get("kind") == "blob" and part.locator.get("digest") != source:
        yield Finding("locator-blob", f"part {part.index}: other bytes were used than its locator names", source)


def _check_question(receipt: Receipt, question: dict[str, Any]) -> Iterator[Finding]:
    asked = question.get("parts")
    said = [_part_identity(part) for part in receipt.parts]
    if asked != said:
        yield Finding("question-parts", "the question's parts are not the receipt's, in order", receipt.question_digest)
    form = receipt.request.ordering_form if receipt.request is not None else question.get("ordering_form")
    if question.get("ordering_form") != form:
        yield Finding("question-form", "the request was laid out in another form than asked", receipt.question_digest)
    answer = receipt.answer
    if answer is None:
        return
    if answer.max_tokens != question.get("max_output_tokens"):
        yield Finding("question-budget", "the answer had another token budget than asked", receipt.question_digest)
    schema = question.get("answer_schema")
    wanted = None if schema is None else str(canonical_digest(schema))
    if answer.schema_digest != wanted:
        yield Finding("question-schema", "the answer was checked against another schema than asked", wanted)


def _part_identity(part: PartRecord) -> dict[str, Any]:
    """The part as contracts.request writes it into the question's document."""
    if part.kind == "text":
        return {"kind": "text", "text": part.text}
    identity: dict[str, Any] = {"kind": part.kind, "artifact": part.artifact.digest if part.artifact else None}
    if part.locator is not None and part.locator.get("kind") == "derived":
        identity["transformation"] = part.locator.get("transformation")
    return identity


def _recomputed(rule: str, said: str, document: dict[str, Any]) -> Iterator[Finding]:
    actual = str(canonical_digest(document))
    if actual != said:
        yield Finding(rule, f"expected {said}, the document has {actual}", said)


def _max_tokens(receipt: Receipt) -> int:
    if receipt.answer is not None:
        return receipt.answer.max_tokens
    budget = (receipt.question or {}).get("max_output_tokens")
    return budget if isinstance(budget, int) else Limits().output_tokens
