"""One request and its answer: judges the head before a byte of the stream, then the stream, as bytes arrive.

An exchange ends once, with a Submission or with WorkerUnavailable. One timer watches all its deadlines: it is set
again when it fires, not for each read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from contracts.completion import CompletionStream, Cut
from contracts.errors import StreamViolation, WorkerUnavailable
from contracts.limits import Limits
from contracts.outcome import Outcome
from contracts.profile import Profile
from contracts.profile_errors import ErrorFamily
from inference.http_body import Body, body_of
from inference.http_head import Head, HeadExchange
from inference.response_rules import ERROR_BYTES, check_head, echo_of, error_text
from inference.submission import Submission, of_stream, refused

_NOT_ADMITTED = frozenset({429, 503})
_CUT_SHORT = "the connection was closed before the answer's end"


class Exchange:
    """The receiver of one connection's bytes. `outcome` is the future of its end."""

    def __init__(
        self,
        profile: Profile,
        limits: Limits,
        *,
        completion: CompletionStream,
        head: HeadExchange,
        request_id: str,
    ) -> None:
        """`request_id` is what the worker has to echo, where the profile says that it does."""
        self._loop = asyncio.get_running_loop()
        self._profile = profile
        self._limits = limits
        self._completion = completion
        self._head_exchange = head
        self._request_id = request_id
        self._head: Head | None = None
        self._body: Body | None = None
        self._raw = bytearray()
        self._error: tuple[Head, bytearray] | None = None  # of an answer that is no stream: its body's beginning
        self._started = self._last = self._loop.time()
        self.outcome: asyncio.Future[Submission] = self._loop.create_future()
        self._timer = self._loop.call_at(self._next_deadline()[0], self._watch)

    @property
    def leaves_connection_usable(self) -> bool:
        """Whether the answer ended as its framing says, on a connection that goes on.

        Where no echo tells whose an answer is, each has a connection of its own: one that came late, or twice, would
        be taken for the next request's.
        """
        body, head = self._body, self._head
        is_over = body is not None and body.is_done and not body.has_spare
        return is_over and head is not None and not head.is_last and self._profile.request_id_echo

    def received(self, data: bytes) -> None:
        """Take what a read brought. Nothing in it raises."""
        self._last = self._loop.time()
        self._ending(self._take, data)

    def closed(self) -> None:
        """The connection is over. Nothing in it raises."""
        self._ending(self._close)

    def cut(self, by: Cut, reason: str) -> None:
        """The answer stopped before its end."""
        if not self.outcome.done():
            self._completion.cut(reason, by)
            self._end(self._judged())

    def abandon(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()
        if not self.outcome.cancel() and not self.outcome.cancelled():
            self.outcome.exception()  # known now, so that nothing says that nobody asked

    def _ending(self, step: Callable[..., None], *data: bytes) -> None:
        """Take a step, which may end the exchange; whatever it raises ends it too, so that nobody waits in vain."""
        if self.outcome.done():
            return
        try:
            step(*data)
        except StreamViolation as violation:
            self._refuse(Outcome.PROTOCOL_VIOLATION, violation.rule, violation.reason)
        except Exception as error:  # a defect of ours: who waits has to see it
            self._end(error)

    def _close(self) -> None:
        if self._error is not None:
            self._refuse_status(*self._error)
        elif self._body is not None and self._body.end():
            self._end(self._judged())
        else:
            self.cut(Cut.TRANSPORT, _CUT_SHORT)

    def _take(self, data: bytes) -> None:
        if self._body is None:
            found = self._head_exchange.feed(data)
            if found is None:
                return
            self._head, data = found
            self._body = body_of(self._head)
            self._judge_head(self._head)
            self._timer.cancel()
            self._watch()
        if self.outcome.done():
            return
        content = self._body.feed(data)
        if self._error is not None:
            head, begun = self._error
            begun += content[: ERROR_BYTES - len(begun)]
            if self._body.is_done or self._body.broken or len(begun) >= ERROR_BYTES:
                self._refuse_status(head, begun)
            return
        self._raw += content
        self._completion.feed(content)
        if self._completion.has_failed or self._body.is_done:
            self._end(self._judged())
        elif self._body.broken:
            self._framing_broke(self._body.broken)

    def _judge_head(self, head: Head) -> None:
        if head.status in _NOT_ADMITTED:
            self._end(WorkerUnavailable("worker-busy", f"the worker did not admit the request: {head.status}"))
        elif head.status != 200:
            self._error = (head, bytearray())
        else:
            check_head(head, self._profile, self._limits, self._request_id)

    def _refuse_status(self, head: Head, begun: bytearray) -> None:
        said = error_text(bytes(begun), head)
        family = self._profile.error_family(head.status, said)
        self._refuse(Outcome.ENGINE_ERROR, "http-status", f"status {head.status} ({family.name}): {said}", family)

    def _framing_broke(self, reason: str) -> None:
        if self._raw:
            self.cut(Cut.TRANSPORT, f"the answer's framing broke: {reason}")
        else:
            self._refuse(Outcome.PROTOCOL_VIOLATION, "http-framing", reason)

    def _next_deadline(self) -> tuple[float, Cut]:
        bounds = [(self._started + self._limits.total_s, Cut.TOTAL)]
        if self._completion.events == 0 and self._error is None:
            bounds.append((self._started + self._limits.first_event_s, Cut.FIRST_EVENT))
        if self._head is not None:
            bounds.append((self._last + self._limits.idle_gap_s, Cut.IDLE))
        return min(bounds, key=lambda bound: bound[0])

    def _watch(self) -> None:
        self._ending(self._look)

    def _look(self) -> None:
        when, by = self._next_deadline()
        if when > self._loop.time():
            self._timer = self._loop.call_at(when, self._watch)
        elif self._error is not None:
            self._refuse_status(*self._error)
        else:
            self.cut(by, self._overdue(by))

    def _overdue(self, by: Cut) -> str:
        limits = self._limits
        return {
            Cut.TOTAL: f"not whole within {limits.total_s:g} s",
            Cut.FIRST_EVENT: f"no event within {limits.first_event_s:g} s",
            Cut.IDLE: f"nothing came for {limits.idle_gap_s:g} s",
        }[by]

    def _refuse(self, outcome: Outcome, rule: str, reason: str, error: ErrorFamily | None = None) -> None:
        self._end(
            refused(
                outcome,
                rule,
                reason,
                status=self._head.status if self._head else None,
                http_request_id=echo_of(self._head) if self._head else None,
                seconds=self._loop.time() - self._started,
                error=error,
            )
        )

    def _judged(self) -> Submission:
        completion = self._completion.finish()
        said = completion.reason or ""
        is_error = completion.outcome is Outcome.ENGINE_ERROR
        return of_stream(
            completion,
            stream=bytes(self._raw),
            status=self._head.status if self._head else None,
            http_request_id=echo_of(self._head) if self._head else None,
            seconds=self._loop.time() - self._started,
            error=self._profile.error_family(200, said) if is_error else None,
        )

    def _end(self, end: Submission | Exception) -> None:
        self._timer.cancel()
        if isinstance(end, Submission):
            self.outcome.set_result(end)
        else:
            self.outcome.set_exception(end)
