"""The completion machine: a stream's bytes in, exactly one outcome out.

Nothing that a stream contains makes it raise: it ends in a terminal state with an outcome, the name of the rule and a
reason. What it accepts as an answer is one sequence only: chunks of one response from the pinned model, the last with
finish reason and usage, one `[DONE]`, the end of the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from contracts.chunk import MAX_EXACT_INT, Choice, Chunk, Usage, check_finish, checked_usage, only_choice, parse_chunk
from contracts.completion_table import ENDED, Signal, State, advance
from contracts.digest import Digest
from contracts.engine_text import shown
from contracts.errors import EngineError, StreamViolation
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import Profile
from contracts.sse import SseDecoder

_MODEL_CHARACTERS = 512
_SHOWN_NAME = 64


@dataclass(frozen=True, slots=True)
class Completion:
    """What a stream amounted to.

    `text` is there for `complete`, `length_limited` and `answer_invalid` only; text that came before a failure is in
    `partial_text`, so that nobody takes it for an answer. `defect` names the profile's known defect that fits.
    """

    outcome: Outcome
    rule: str | None
    reason: str | None
    text: str | None
    partial_text: str | None
    reasoning: str | None
    usage: Usage | None
    finish_reason: str | None
    response_id: str | None
    model: str | None
    created: int | None
    events: int
    comments: int
    wire_bytes: int
    stream_digest: Digest
    defect: str | None = None


class Cut(str, Enum):
    """Which deadline or failure of the transport ended a stream before its end: the rule of an `incomplete`."""

    FIRST_EVENT = "first-event-deadline"
    IDLE = "idle-deadline"
    TOTAL = "total-deadline"
    TRANSPORT = "transport-cut"


class CompletionStream:
    """Validates one answer stream while its bytes arrive. Call `feed` for each read, then `finish` at the end."""

    def __init__(self, profile: Profile, *, route: str | None, max_tokens: int, limits: Limits) -> None:
        """`route` is the model that every chunk must name, or None for any one model."""
        self._profile = profile
        self._id_pattern = re.compile(profile.response_id_pattern, re.ASCII)
        self._role_always = profile.role_in_every_delta
        self._route = route
        self._max_tokens = max_tokens
        self._answer_bytes = limits.answer_bytes
        self._max_events = limits.stream_events(max_tokens)
        self._decoder = SseDecoder(limits)
        self._state = State.WAITING
        self._failure: tuple[Outcome, str, str] | None = None
        self._first: Chunk | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_bytes = 0
        self._reasoning_bytes = 0
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._events = 0
        self._undispatched_at_done = 0
        self._defect: str | None = None

    def __repr__(self) -> str:
        failure = f" {self._failure[0].value} by {self._failure[1]}" if self._failure else ""
        return f"<CompletionStream {self._state.value}{failure}, {self._events} events>"

    @property
    def state(self) -> State:
        """Where the stream is."""
        return self._state

    @property
    def events(self) -> int:
        """How many events were decoded; keep-alive comments are none."""
        return self._events

    @property
    def wire_bytes(self) -> int:
        """How many bytes were fed."""
        return self._decoder.wire_bytes

    @property
    def has_failed(self) -> bool:
        """Whether the outcome is settled as a failure, so that reading on is useless."""
        return self._state is State.FAILED

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._state in ENDED:
            self._decoder.absorb(data)
            return
        try:
            for name, event in self._decoder.feed(data):
                self._event(name, event)
        except StreamViolation as violation:
            self._move(Signal.VIOLATION, violation.rule, violation.reason)
        except EngineError as error:
            self._move(Signal.ENGINE_TEXT, error.rule, error.reason)

    def cut(self, reason: str, by: Cut = Cut.TRANSPORT) -> Completion:
        """A deadline passed or the transport failed before the end of the bytes."""
        if self._state not in ENDED:
            self._move(Signal.CUT, by.value, reason)
        return self._completion()

    def finish(self) -> Completion:
        """The bytes ended cleanly: what the stream amounts to."""
        if self._state not in ENDED:
            self._end()
        return self._completion()

    def _event(self, name: str, data: bytes) -> None:
        self._events += 1
        if self._events > self._max_events:
            raise StreamViolation("events", f"expected at most {self._max_events} events, got more")
        if name != "message":
            raise StreamViolation("named-event", f"no request of ours allows the event {shown(name)[:_SHOWN_NAME]!r}")
        if data == b"[DONE]":
            self._undispatched_at_done = self._decoder.undispatched
            self._move(Signal.DONE)
        elif self._state is State.DONE:
            self._move(Signal.CHUNK)
        else:
            chunk = parse_chunk(data)
            self._chunk(chunk, only_choice(chunk))
        if self._failure is not None:
            raise StreamViolation(*self._failure[1:])

    def _chunk(self, chunk: Chunk, choice: Choice) -> None:
        finish, usage = choice.finish_reason, chunk.usage
        if finish is not None or usage is not None or self._state is not State.STREAMING:
            self._move(_CHUNK_SIGNALS[finish is not None, usage is not None])
            if self._failure is not None:
                return
        first = self._first
        if first is None:
            self._open(chunk)
        elif chunk.id != first.id or chunk.created != first.created or chunk.model != first.model:
            raise _changed(chunk, first)
        self._add(choice)
        if finish is not None:
            check_finish(finish)
            self._finish_reason = finish
        if usage is not None:
            self._usage = checked_usage(usage, max(self._max_tokens, self._profile.least_completion_tokens))
            if usage.completion_tokens == 0 and self._text:
                raise StreamViolation("usage-none", "a text of no token: the counts are not this answer's")

    def _open(self, chunk: Chunk) -> None:
        """The first chunk says which response this is; all others must repeat it."""
        if not self._id_pattern.fullmatch(chunk.id):
            raise StreamViolation("id-form", f"expected an id like {self._profile.response_id_pattern}, got another")
        if not 0 <= chunk.created <= MAX_EXACT_INT:
            raise StreamViolation("created", "expected seconds since 1970, got a number beyond any date")
        expected = "the requested route" if self._route is not None else f"at most {_MODEL_CHARACTERS} characters"
        if (self._route is not None and chunk.model != self._route) or len(chunk.model) > _MODEL_CHARACTERS:
            raise StreamViolation("model", f"expected {expected}, got a model name of {len(chunk.model)} characters")
        self._first = chunk

    def _add(self, choice: Choice) -> None:
        delta = choice.delta
        if delta.role != "assistant" and (self._role_always or delta.role is not None):
            raise StreamViolation("role", f"expected role assistant, got {shown(str(delta.role))[:_SHOWN_NAME]}")
        text, thought = delta.content, delta.reasoning_content
        if text:
            self._text.append(text)
            self._text_bytes += len(text) if text.isascii() else len(text.encode())
            if self._text_bytes > self._answer_bytes:
                raise StreamViolation("answer-bytes", f"expected at most {self._answer_bytes} bytes, got more")
        if thought:
            self._reasoning.append(thought)
            self._reasoning_bytes += len(thought) if thought.isascii() else len(thought.encode())
            if self._reasoning_bytes > self._answer_bytes:
                raise StreamViolation("reasoning-bytes", f"expected at most {self._answer_bytes} bytes, got more")

    def _end(self) -> None:
        decoder = self._decoder
        if self._state is State.DONE and (decoder.inside_event or decoder.undispatched > self._undispatched_at_done):
            self._move(Signal.CHUNK)
        elif self._state is State.DONE and decoder.unknown:
            self._move(Signal.VIOLATION, "foreign-field", f"{decoder.unknown} lines are of no field of event streams")
        elif self._state is State.DONE and decoder.undispatched:
            self._move(Signal.VIOLATION, "event-without-data", f"{decoder.undispatched} lines made events without data")
        elif self._state is State.WAITING and decoder.wire_bytes == 0:
            self._move(Signal.EOF, "empty-stream", self._with_defect("the stream was empty", after_text=False))
        elif self._state is State.WAITING and decoder.is_foreign:
            self._move(Signal.EOF, "not-an-event-stream", f"{decoder.wire_bytes} bytes without an event")
        elif decoder.inside_event:
            self._move(Signal.EOF, "eof-inside-event", f"the bytes ended inside event {self._events + 1}")
        elif self._state in (State.WAITING, State.STREAMING):
            after_text = self._state is State.STREAMING
            told = f"the bytes ended after {self._events} events without a finish reason"
            self._move(Signal.EOF, None, self._with_defect(told, after_text=after_text))
        else:
            self._move(Signal.EOF)

    def _with_defect(self, told: str, *, after_text: bool) -> str:
        defect = self._profile.terminal_defect(after_text=after_text)
        if defect is None:
            return told
        self._defect = defect.name
        again = "; the same request ends the same way" if defect.same_again else ""
        return f"{told}; known of {self._profile.version} as {defect.name}: {defect.explanation}{again}"

    def _move(self, signal: Signal, rule: str | None = None, reason: str | None = None) -> None:
        step = advance(self._state, signal)
        self._state = step.state
        if step.outcome is not None:
            self._failure = (step.outcome, rule or step.rule or "", reason or step.reason or "")

    def _completion(self) -> Completion:
        outcome, rule, reason = self._verdict()
        text = "".join(self._text)
        is_whole = self._state is State.CLOSED
        first = self._first
        return Completion(
            outcome=outcome,
            rule=rule,
            reason=reason,
            text=text if is_whole else None,
            partial_text=None if is_whole else text or None,
            reasoning="".join(self._reasoning) or None,
            usage=self._usage,
            finish_reason=self._finish_reason,
            response_id=first.id if first else None,
            model=first.model if first else None,
            created=first.created if first else None,
            events=self._events,
            comments=self._decoder.comments,
            wire_bytes=self._decoder.wire_bytes,
            stream_digest=self._decoder.digest,
            defect=self._defect,
        )

    def _verdict(self) -> tuple[Outcome, str | None, str | None]:
        if self._failure is not None:
            return self._failure
        if self._finish_reason == "length":
            return Outcome.LENGTH_LIMITED, "finish-length", f"the budget of {self._max_tokens} tokens ended the answer"
        return Outcome.COMPLETE, None, None


_CHUNK_SIGNALS = {
    (False, False): Signal.CHUNK,
    (True, False): Signal.FINISH,
    (False, True): Signal.USAGE,
    (True, True): Signal.LAST,
}


def _changed(chunk: Chunk, first: Chunk) -> StreamViolation:
    names = [name for name in ("id", "created", "model") if getattr(chunk, name) != getattr(first, name)]
    return StreamViolation(f"{names[0]}-changed", f"a chunk of another response: {', '.join(names)} changed")


def check_stream(
    data_chunks: Iterable[bytes], *, profile: Profile, route: str | None, max_tokens: int, limits: Limits
) -> Completion:
    """The verdict on a whole recorded stream. Every chunk is read, so `stream_digest` is that of all bytes."""
    stream = CompletionStream(profile, route=route, max_tokens=max_tokens, limits=limits)
    for data in data_chunks:
        stream.feed(data)
    return stream.finish()
