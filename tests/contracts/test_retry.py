"""The retry policy: a table of what happened, and what follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.outcome import Outcome
from contracts.profile import PROFILES, profile
from contracts.profile_errors import Again
from contracts.retry import RetryChangedBudget, RetryRule, RetrySame, Step, Stop, Tried, next_step, retry_delay_s

SAME = RetrySame()
FIXED, FREE = RetryRule(5), RetryRule(5, change_budget=True)
MOST = 100

TABLE: dict[str, tuple[str, RetryRule, Tried, Step]] = {
    "an answer": ("0.8.17", FREE, Tried(Outcome.COMPLETE, None, 64), Stop("answered")),
    "a busy worker": ("0.8.17", FIXED, Tried(Outcome.UNAVAILABLE, "worker-busy", 64), SAME),
    "a worker that is gone": ("0.8.17", FIXED, Tried(Outcome.UNAVAILABLE, "worker-connect", 64), SAME),
    "a pool that closes": ("0.8.17", FIXED, Tried(Outcome.UNAVAILABLE, "pool-closed", 64), Stop("same-again")),
    "a fault of ours": ("0.8.17", FIXED, Tried(Outcome.UNAVAILABLE, "internal-fault", 64), Stop("same-again")),
    "a cut": ("0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "transport-cut", 64), SAME),
    "an end inside an event": ("0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "eof-inside-event", 64), SAME),
    "silence": ("0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "idle-deadline", 64), SAME),
    "a long queue": ("0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "first-event-deadline", 64), Stop("same-again")),
    "no time left": ("0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "total-deadline", 64), Stop("same-again")),
    "split UTF-8, budget fixed": (
        "0.8.17", FIXED, Tried(Outcome.INCOMPLETE, "eof-before-finish", 5), Stop("budget-fixed")
    ),
    "split UTF-8, budget free": (
        "0.8.17", FREE, Tried(Outcome.INCOMPLETE, "eof-before-finish", 5), RetryChangedBudget(10)
    ),
    "split UTF-8 at the limit": (
        "0.8.17", FREE, Tried(Outcome.INCOMPLETE, "eof-before-finish", MOST), RetryChangedBudget(MOST - 1)
    ),
    "the same end without the defect": ("0.9.2", FIXED, Tried(Outcome.INCOMPLETE, "eof-before-finish", 5), SAME),
    "a pool too small for the prompt": (
        "0.9.2", FREE, Tried(Outcome.INCOMPLETE, "empty-stream", 5), Stop("same-again")
    ),
    "a budget that ran out": ("0.9.5", FREE, Tried(Outcome.LENGTH_LIMITED, "finish-length", 8), RetryChangedBudget(16)),
    "a budget that nearly fits": (
        "0.9.5", FREE, Tried(Outcome.LENGTH_LIMITED, "finish-length", 64), RetryChangedBudget(MOST)
    ),
    "a budget at the limit": (
        "0.9.5", FREE, Tried(Outcome.LENGTH_LIMITED, "finish-length", MOST), Stop("budget-at-limit")
    ),
    "a budget that is fixed": ("0.9.5", FIXED, Tried(Outcome.LENGTH_LIMITED, "finish-length", 8), Stop("budget-fixed")),
    "a lost lease": ("0.9.5", FIXED, Tried(Outcome.LEASE_LOST, "lease-lost", 8), SAME),
    "a wrong form": ("0.9.5", FREE, Tried(Outcome.ANSWER_INVALID, "answer-json", 8), Stop("same-again")),
    "an engine's error": ("0.9.5", FREE, Tried(Outcome.ENGINE_ERROR, "http-status", 8), Stop("same-again")),
    "an engine's error that passes": ("0.9.5", FIXED, Tried(Outcome.ENGINE_ERROR, "http-status", 8, Again.SAME), SAME),
    "a broken rule": ("0.9.5", FREE, Tried(Outcome.PROTOCOL_VIOLATION, "usage-twice", 8), Stop("same-again")),
    "a refusal": ("0.9.5", FREE, Tried(Outcome.REFUSED, "modality", 8), Stop("same-again")),
    "a source that fails": ("0.9.5", FREE, Tried(Outcome.SOURCE_FAILED, "file-missing", 8), Stop("same-again")),
    "a cancellation": ("0.9.5", FREE, Tried(Outcome.CANCELED, "canceled", 8), Stop("same-again")),
    "a death": ("0.9.5", FREE, Tried(Outcome.ABANDONED, "run-died", 8), Stop("same-again")),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_what_follows_an_attempt(case: str) -> None:
    """Passing faults are tried again, certain ones only with another budget, findings never."""
    version, rule, last, step = TABLE[case]
    assert next_step((), last, rule, profile(version), MOST) == step


def test_the_table_names_every_outcome() -> None:
    """An outcome without a row would be one that nobody decided."""
    assert {tried.outcome for _, _, tried, _ in TABLE.values()} == set(Outcome)


def test_nothing_is_tried_again_unless_the_bundle_says_so() -> None:
    """The default is one attempt, whatever happens."""
    for version, _, last, _ in TABLE.values():
        assert isinstance(next_step((), last, RetryRule(), profile(version), MOST), Stop)


def test_a_budget_is_not_tried_twice() -> None:
    """Wider first; at the limit, narrower than the last and new."""
    rule, history = RetryRule(9, change_budget=True), tuple[Tried, ...]()
    budgets = [30]
    while isinstance(
        step := next_step(history, Tried(Outcome.INCOMPLETE, "eof-before-finish", budgets[-1]), rule,
                          profile("0.8.2"), MOST), RetryChangedBudget,
    ):  # fmt: skip
        history = (*history, Tried(Outcome.INCOMPLETE, "eof-before-finish", budgets[-1]))
        budgets.append(step.max_tokens)
    assert budgets == [30, 60, 100, 99, 98, 97, 96, 95, 94]
    assert step == Stop("attempts-used")


TRIED = st.builds(
    Tried,
    st.sampled_from(list(Outcome)),
    st.sampled_from([None, *{tried.rule for _, _, tried, _ in TABLE.values()}, "some-other-rule"]),
    st.integers(1, MOST),
)


@given(
    history=st.lists(TRIED, max_size=6).map(tuple),
    last=TRIED,
    attempts=st.integers(1, 6),
    change=st.booleans(),
    version=st.sampled_from(list(PROFILES)),
)
def test_no_history_makes_more_attempts_or_tokens_than_permitted(
    history: tuple[Tried, ...], last: Tried, attempts: int, change: bool, version: str
) -> None:
    """Whatever came before: bounded tries, bounded and new budgets, and none changed without permission."""
    step = next_step(history, last, RetryRule(attempts, change), profile(version), MOST)
    if len(history) + 1 >= attempts or last.outcome is Outcome.COMPLETE:
        assert isinstance(step, Stop)
    if isinstance(step, RetryChangedBudget):
        assert change
        assert 1 <= step.max_tokens <= MOST
        assert step.max_tokens != last.max_tokens


@given(tries=st.integers(1, 10**6), jitter=st.floats(0, 1), longest=st.floats(0, 1e6))
def test_a_pause_is_bounded_and_spread(tries: int, jitter: float, longest: float) -> None:
    """Between half and all of a doubling pause, and never longer than the limit."""
    pause = retry_delay_s(tries, jitter, longest)
    assert 0 <= pause <= longest
    assert retry_delay_s(tries, 0, longest) == retry_delay_s(tries, 1, longest) / 2 <= pause


def test_pauses_double_from_half_a_second() -> None:
    """Half a second, one, two, and then the limit."""
    assert [retry_delay_s(tries, 1, 3.0) for tries in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
