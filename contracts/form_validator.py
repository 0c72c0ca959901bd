"""Evaluates an answer against its form with a budget of work, counted and not timed: verification comes to the same.

The evaluation is jsonschema's. Each keyword pays for what it may look at before it runs: the whole of the value (its
message quotes it), what the form lists, and the steps of patterns. `uniqueItems` is replaced, because comparing each
with each is quadratic where items do not sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jsonschema

from contracts.answer_form import AnswerForm
from contracts.digest import canonical_json
from contracts.pattern_cost import pattern_cost

MAX_WORK = 16 << 20
"""Units of work for one answer, about a character looked at each. An answer of 20 KiB six levels deep in six keywords a
level takes less than a twentieth of it."""

_NUMBER_WEIGHT = 8
_CALL = 64  # a keyword's call, in characters looked at: measured, 2 to 5 us
_COMPARING = 8  # comparing values, and serialising them, costs more than looking
_COMPARED = ("const", "enum")
_Rule = Callable[[Any, Any, Any, Any], Any]


class OverBudget(Exception):
    """The form asks for more work over this answer than the budget has."""


class _Meter:
    """What one evaluation has spent. Weights of the answer's containers are known by their identity: they live on."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self._weights: dict[int, int] = {}

    def spent(self, budget: int) -> int:
        return budget - self._left

    def spend(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise OverBudget

    def weight(self, value: Any) -> int:
        """About how many characters `value` is written in."""
        if isinstance(value, str):
            return len(value) + 1
        if not isinstance(value, dict | list):
            return _NUMBER_WEIGHT
        known = self._weights.get(id(value))
        if known is None:
            keys = sum(map(len, value)) if isinstance(value, dict) else 0
            inner = value.values() if isinstance(value, dict) else value
            known = self._weights[id(value)] = 2 + len(value) + keys + sum(map(self.weight, inner))
        return known


_METER: ContextVar[_Meter] = ContextVar("_METER")


def first_fault(form: AnswerForm, value: Any, budget: int = MAX_WORK) -> tuple[str | None, int]:
    """Where and by which keyword `value` does not satisfy `form`, None if it does, and the work that it took.

    Raises OverBudget.
    """
    meter = _Meter(budget)
    token = _METER.set(meter)
    try:
        error = next(_VALIDATOR(form.schema).iter_errors(value), None)
    finally:
        _METER.reset(token)
    told = None if error is None else f"{error.json_path[:80]} does not satisfy {error.validator or False!r}"
    return told, meter.spent(budget)


def _counted(name: str, rule: _Rule) -> _Rule:
    def run(validator: Any, expected: Any, instance: Any, schema: Any) -> Any:
        meter = _METER.get()
        listed = len(expected) if isinstance(expected, list | dict) else 0
        if name in _COMPARED:
            listed = _COMPARING * meter.weight(expected)
        meter.spend(_CALL + meter.weight(instance) + listed)
        _spend_on_patterns(meter, name, expected, instance, schema)
        return rule(validator, expected, instance, schema)

    return run


def _spend_on_patterns(meter: _Meter, name: str, expected: Any, instance: Any, schema: Any) -> None:
    if name == "pattern" and isinstance(instance, str):
        meter.spend(pattern_cost(expected).steps(len(instance)))
    elif name in ("patternProperties", "additionalProperties") and isinstance(instance, dict):
        patterns = schema.get("patternProperties", ())
        for each in patterns:
            cost = pattern_cost(each)
            for key in instance:
                meter.spend(cost.steps(len(key)))


def _unique_items(_validator: Any, expected: Any, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Equal values, and only those, have one canonical form: 1 and 1.0, and objects in any order of keys."""
    if expected and isinstance(instance, list):
        _METER.get().spend(_COMPARING * _METER.get().weight(instance))
        if len({canonical_json(item) for item in instance}) != len(instance):
            yield jsonschema.ValidationError("an item occurs twice")


_BASE = jsonschema.Draft202012Validator
_RULES = {**_BASE.VALIDATORS, "uniqueItems": _unique_items}
_VALIDATOR: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    _BASE, {name: _counted(name, rule) for name, rule in _RULES.items()}
)
