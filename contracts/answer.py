"""Structured answers: the text of a whole stream against the question's JSON Schema (draft 2020-12).

Everything is bounded before the validator sees it, the validator's work is counted, and no reference is ever fetched:
a form that could need more was refused before anything was asked (contracts.answer_form).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from contracts.answer_form import MAX_DEPTH, AnswerForm, answer_form, check_schema
from contracts.errors import InputError
from contracts.form_validator import MAX_WORK, OverBudget, first_fault
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.strict_json import read_strict

__all__ = ["CheckedAnswer", "Judged", "check_answer", "check_schema"]


class Judged(Protocol):
    """What can be checked: a frozen dataclass with an outcome, its rule and reason, and the text of a whole stream."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def outcome(self) -> Outcome: ...

    @property
    def text(self) -> str | None: ...


_ANSWER_RULES = {"json-form": "answer-json", "json-depth": "answer-depth"}

J = TypeVar("J", bound=Judged)


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[J]):
    """A completion and, if it is complete, the JSON value of its text."""

    completion: J
    structured: Any = None


def check_answer(completion: J, schema: dict[str, Any], limits: Limits) -> CheckedAnswer[J]:
    """A completion whose text was asked for as JSON: as it is, or with outcome `answer_invalid` and its text kept.

    Only a `complete` one is looked at: a text that its budget ended is not judged. A value that comes with it can be
    written by both serialisers. Raises InputError for a `schema` that `check_schema` refuses.
    """
    form = answer_form(schema)
    if completion.outcome is not Outcome.COMPLETE or completion.text is None:
        return CheckedAnswer(completion)
    size = len(completion.text.encode())
    if size > limits.answer_bytes:
        return _invalid(completion, "answer-bytes", f"expected at most {limits.answer_bytes} bytes, got {size}")
    try:
        value = read_strict(completion.text, max_depth=MAX_DEPTH)
    except InputError as error:
        return _invalid(completion, _ANSWER_RULES[error.rule], error.reason)
    return _against_form(completion, value, form)


def _against_form(completion: J, value: Any, form: AnswerForm) -> CheckedAnswer[J]:
    try:
        fault, _ = first_fault(form, value)
    except OverBudget:
        return _invalid(completion, "answer-work", f"to check it takes more than {MAX_WORK} steps")
    if fault is not None:
        return _invalid(completion, "answer-schema", fault)
    return CheckedAnswer(completion, value)


def _invalid(completion: J, rule: str, reason: str) -> CheckedAnswer[J]:
    return CheckedAnswer(replace(completion, outcome=Outcome.ANSWER_INVALID, rule=rule, reason=reason))
