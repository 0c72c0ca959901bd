"""The states of a completion and the one table of its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from contracts.outcome import Outcome


class State(str, Enum):
    """Where an answer stream is. `CLOSED` and `FAILED` are terminal."""

    WAITING = "waiting"  # no chunk yet
    STREAMING = "streaming"  # chunks, the last not among them
    FINISHED = "finished"  # finish reason and usage seen
    DONE = "done"  # [DONE] seen
    CLOSED = "closed"  # the bytes ended when they should
    FAILED = "failed"


class Signal(str, Enum):
    """What happens to a stream."""

    CHUNK = "chunk"  # neither finish reason nor usage
    FINISH = "finish"  # finish reason without usage
    USAGE = "usage"  # usage without finish reason
    LAST = "last"  # both
    DONE = "done"  # [DONE]
    ENGINE_TEXT = "engine-text"  # data that is not JSON
    VIOLATION = "violation"  # a rule or bound that does not depend on the state
    CUT = "cut"  # a deadline, or the transport failed
    EOF = "eof"  # the bytes ended cleanly


class Step(NamedTuple):
    """A transition. `outcome`, `rule` and `reason` are set where it fails; a signal may bring its own rule."""

    state: State
    outcome: Outcome | None = None
    rule: str | None = None
    reason: str | None = None


def _violation(rule: str, reason: str) -> Step:
    return Step(State.FAILED, Outcome.PROTOCOL_VIOLATION, rule, reason)


def _incomplete(rule: str, reason: str) -> Step:
    return Step(State.FAILED, Outcome.INCOMPLETE, rule, reason)


_ANYWHERE = {
    Signal.ENGINE_TEXT: Step(State.FAILED, Outcome.ENGINE_ERROR, "error-text"),
    Signal.VIOLATION: Step(State.FAILED, Outcome.PROTOCOL_VIOLATION),
    Signal.CUT: Step(State.FAILED, Outcome.INCOMPLETE),
}
_NO_USAGE = _violation("usage-missing", "a finish reason came without usage")
_EARLY_USAGE = _violation("usage-early", "usage came before the finish reason")
_AFTER_DONE = _violation("data-after-done", "something other than a comment came after [DONE]")

TABLE: Mapping[State, Mapping[Signal, Step]] = {
    State.WAITING: {
        **_ANYWHERE,
        Signal.CHUNK: Step(State.STREAMING),
        Signal.FINISH: _NO_USAGE,
        Signal.USAGE: _EARLY_USAGE,
        Signal.LAST: Step(State.FINISHED),
        Signal.DONE: _violation("done-before-answer", "[DONE] came before any chunk"),
        Signal.EOF: _incomplete("eof-before-answer", "the bytes ended before any chunk"),
    },
    State.STREAMING: {
        **_ANYWHERE,
        Signal.CHUNK: Step(State.STREAMING),
        Signal.FINISH: _NO_USAGE,
        Signal.USAGE: _EARLY_USAGE,
        Signal.LAST: Step(State.FINISHED),
        Signal.DONE: _violation("finish-missing", "[DONE] came before a finish reason"),
        Signal.EOF: _incomplete("eof-before-finish", "the bytes ended before a finish reason"),
    },
    State.FINISHED: {
        **_ANYWHERE,
        Signal.CHUNK: _violation("content-after-finish", "a chunk came after the finish reason"),
        Signal.FINISH: _violation("finish-twice", "a second finish reason came"),
        Signal.USAGE: _violation("usage-twice", "usage came again after the finish reason"),
        Signal.LAST: _violation("finish-twice", "a second finish reason came"),
        Signal.DONE: Step(State.DONE),
        Signal.EOF: _incomplete("eof-before-done", "the bytes ended before [DONE]"),
    },
    State.DONE: {
        **_ANYWHERE,
        Signal.CHUNK: _AFTER_DONE,
        Signal.FINISH: _AFTER_DONE,
        Signal.USAGE: _AFTER_DONE,
        Signal.LAST: _AFTER_DONE,
        Signal.ENGINE_TEXT: _AFTER_DONE,
        Signal.DONE: _violation("done-twice", "[DONE] came twice"),
        Signal.EOF: Step(State.CLOSED),
    },
    State.CLOSED: dict.fromkeys(Signal, Step(State.CLOSED)),
    State.FAILED: dict.fromkeys(Signal, Step(State.FAILED)),
}
"""Total: every signal has a step in every state."""

ENDED = frozenset({State.CLOSED, State.FAILED})


def advance(state: State, signal: Signal) -> Step:
    """The step that `signal` makes in `state`."""
    return TABLE[state][signal]
