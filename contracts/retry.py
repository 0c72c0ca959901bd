"""Whether a question is tried again, and how: a pure function of what happened, the profile and the permission.

Each try is an attempt of its own, with a new request id and its own receipt. What is known to end the same way again
is tried only with another token budget, and that only where the bundle permits it: another budget is another question,
with another digest.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.outcome import Outcome
from contracts.profile import Profile
from contracts.profile_errors import Again


@dataclass(frozen=True, slots=True)
class RetryRule:
    """What a bundle permits. `attempts` counts all tries, the first too: 1 is no retry."""

    attempts: int = 1
    change_budget: bool = False


NO_RETRY = RetryRule()


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt that ended: how, and with which token budget. `again`: what the profile says of an engine's error."""

    outcome: Outcome
    rule: str | None
    max_tokens: int
    again: Again = Again.NO


@dataclass(frozen=True, slots=True)
class Stop:
    """The last attempt's end is the question's. `why` is a kebab-case name."""

    why: str


@dataclass(frozen=True, slots=True)
class RetrySame:
    """Ask the same question again."""


@dataclass(frozen=True, slots=True)
class RetryChangedBudget:
    """Ask again with a budget of `max_tokens`, which no attempt had yet."""

    max_tokens: int


Step = Stop | RetrySame | RetryChangedBudget

_AGAIN = {
    Outcome.UNAVAILABLE: frozenset({"worker-connect", "worker-busy"}),
    Outcome.INCOMPLETE: frozenset({"transport-cut", "idle-deadline", "eof-inside-event", "eof-before-done"}),
    Outcome.LEASE_LOST: frozenset({"lease-lost", "lease-renewal"}),
}
"""Ends that may be another's fault and pass. Deadlines for the first event and for all are not among them: who asks
again makes the queue that they waited in longer."""

_EARLY_ENDS = {"eof-before-finish": True, "empty-stream": False, "eof-before-answer": False}
"""Clean ends without a finish reason, and whether chunks came before: where a profile's terminal defects show."""


def next_step(history: tuple[Tried, ...], last: Tried, rule: RetryRule, profile: Profile, most_tokens: int) -> Step:
    """What follows `last`, which came after `history`. `most_tokens` is the largest budget that the limits allow."""
    if last.outcome is Outcome.COMPLETE:
        return Stop("answered")
    if len(history) + 1 >= rule.attempts:
        return Stop("attempts-used")
    if last.outcome is Outcome.LENGTH_LIMITED:
        return _with_more(last, rule, most_tokens)
    if last.outcome is Outcome.INCOMPLETE and last.rule in _EARLY_ENDS:
        return _after_early_end((*history, last), rule, profile, most_tokens)
    if last.outcome is Outcome.ENGINE_ERROR:
        return RetrySame() if last.again is Again.SAME else Stop("same-again")
    return RetrySame() if last.rule in _AGAIN.get(last.outcome, ()) else Stop("same-again")


def retry_delay_s(tries: int, jitter: float, longest_s: float) -> float:
    """Seconds to wait after `tries` attempts: half a second, doubled each time, at most `longest_s`, and of that
    between half and all by `jitter` (0 to 1), so that what failed together does not come back together."""
    base: float = min(0.5 * 2 ** min(tries - 1, 30), longest_s)
    return base * (0.5 + 0.5 * jitter)


def _with_more(last: Tried, rule: RetryRule, most_tokens: int) -> Step:
    if not rule.change_budget:
        return Stop("budget-fixed")
    if last.max_tokens >= most_tokens:
        return Stop("budget-at-limit")
    return RetryChangedBudget(min(2 * last.max_tokens, most_tokens))


def _after_early_end(tried: tuple[Tried, ...], rule: RetryRule, profile: Profile, most_tokens: int) -> Step:
    after_text = _EARLY_ENDS[tried[-1].rule or ""]
    defect = profile.terminal_defect(after_text=after_text)
    if defect is None or not defect.same_again:
        return RetrySame()
    if not after_text:
        return Stop("same-again")  # the prompt did not fit; the budget is no part of it
    if not rule.change_budget:
        return Stop("budget-fixed")
    used = {each.max_tokens for each in tried}
    last = tried[-1].max_tokens
    wider = min(2 * last, most_tokens)
    if wider not in used:
        return RetryChangedBudget(wider)
    narrower = next((tokens for tokens in range(last - 1, 0, -1) if tokens not in used), None)
    return Stop("budget-at-limit") if narrower is None else RetryChangedBudget(narrower)
