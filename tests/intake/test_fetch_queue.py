"""The fetch queue: the real confined fetcher against a loopback origin, many at a time and again where it can help."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from contracts.errors import FetchError, FetchUnavailable, PolicyDenied
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from contracts.records import AcquisitionRecord, Failure
from intake.fetch_queue import FetchPace, FetchQueue, pause_s
from intake.fetcher import Fetcher
from tests.simulators.origin import BODY, Script, answer, origin

LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.0/30",))
LIMITS = Limits().changed({"retry_delay_s": 0, "fetch_retry_after_s": 5})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(LIMITS) as started:
        yield started


def queue(fetcher: Fetcher, slots: int = 8, per_host: int = 8, tries: int = 1, limits: Limits = LIMITS) -> FetchQueue:
    return FetchQueue(fetcher, FetchPace(slots, per_host, tries), limits)


async def fetch(fetches: FetchQueue, url: str, tenant: str = "t") -> tuple[AcquisitionRecord, bytes]:
    """Fetch into a fresh file: the record, and what is in the file."""
    with tempfile.TemporaryFile() as file:
        into = file.fileno()
        record = await fetches.fetch(url, tenant=tenant, policy=LOOPBACK, max_bytes=8192, into=into)
        return record, file.read()


@dataclass
class Gate:
    """An origin's answer that waits until it is opened; counts who is there, in the order in which they came."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    inside: int = 0
    most: int = 0
    came: list[str] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def script(self, name: str) -> Script:
        async def write(writer: asyncio.StreamWriter) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.came.append(name)
            async with self.changed:
                self.changed.notify_all()
            try:
                await self.opened.wait()
                await answer("200 OK", {"Connection": "close"}, BODY)(writer)
            finally:
                self.inside -= 1

        return write

    async def until(self, count: int) -> None:
        """Wait until so many have come."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.came) >= count)


def then(*scripts: Script) -> Script:
    """One of `scripts` after the other, the last one for ever."""
    left = list(scripts)

    async def write(writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(writer)

    return write


@pytest.mark.asyncio(loop_scope="module")
async def test_caps_in_all_and_of_one_host(fetcher: Fetcher) -> None:
    """Of many fetches of two hosts so many run as there are slots, and of one host alone no more than its cap."""
    gate = Gate()
    async with origin({"/": gate.script("x")}, host="0.0.0.0") as web:
        fetches = queue(fetcher, slots=5, per_host=3)
        one = [asyncio.create_task(fetch(fetches, web.url("/"))) for _ in range(10)]
        await gate.until(3)
        other = [asyncio.create_task(fetch(fetches, web.url("/", host="127.0.0.2"))) for _ in range(10)]
        await gate.until(5)
        assert gate.inside == 5
        gate.opened.set()
        got = await asyncio.gather(*one, *other)
    assert [body for _, body in got] == [BODY] * 20
    assert gate.most == 5


@pytest.mark.asyncio(loop_scope="module")
async def test_hundreds_in_flight(fetcher: Fetcher) -> None:
    """Two hundred at once, all in one child, each with its own bytes."""
    gate = Gate()
    async with origin({"/": gate.script("x")}) as web:
        fetches = queue(fetcher, slots=200, per_host=200)
        tasks = [asyncio.create_task(fetch(fetches, web.url("/"))) for _ in range(300)]
        await gate.until(200)
        gate.opened.set()
        assert {body for _, body in await asyncio.gather(*tasks)} == {BODY}
    assert gate.most == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_a_tenant_with_one_is_served_beside_one_with_many(fetcher: Fetcher) -> None:
    """With one slot and a long row of another tenant's, the newcomer is next but one."""
    gate = Gate()
    async with origin({"/many": gate.script("many"), "/one": gate.script("one")}) as web:
        fetches = queue(fetcher, slots=1)
        many = [asyncio.create_task(fetch(fetches, web.url("/many"), "many")) for _ in range(50)]
        await gate.until(1)
        one = asyncio.create_task(fetch(fetches, web.url("/one"), "one"))
        await asyncio.sleep(0)  # it stands in the row
        gate.opened.set()
        await asyncio.gather(one, *many)
    assert "one" in gate.came[:3]


@pytest.mark.asyncio(loop_scope="module")
async def test_canceled_fetches_leave_their_slots(fetcher: Fetcher) -> None:
    """Those that run, those that wait, and one that is canceled in the moment in which it gets its slot."""
    gate = Gate()
    async with origin({"/": gate.script("x")}) as web:
        fetches = queue(fetcher, slots=2, per_host=2)
        tasks = [asyncio.create_task(fetch(fetches, web.url("/"))) for _ in range(6)]
        await gate.until(2)
        for index in (4, 0, 2, 1):  # the end of 0 serves 2 or 3: one of them is canceled already
            tasks[index].cancel()
        await asyncio.gather(*(tasks[index] for index in (4, 0, 2, 1)), return_exceptions=True)
        gate.opened.set()
        bodies = [body for _, body in await asyncio.gather(tasks[3], tasks[5])]
        assert bodies == [BODY, BODY]
        again = await asyncio.gather(*(fetch(fetches, web.url("/")) for _ in range(4)))
        assert {body for _, body in again} == {BODY}
    assert gate.most <= 4  # the origin may see a canceled one's end late


CASES = {
    "a busy server": (then(answer("503 Busy", body=b"later"), answer("200 OK", {}, BODY)), 2, None),
    "busy for ever": (answer("503 Busy"), 3, "http-status"),
    "told to wait a moment": (then(answer("429 Slow", {"Retry-After": "0"}), answer("200 OK", {}, BODY)), 2, None),
    "told to wait for long": (answer("429 Slow", {"Retry-After": "3600"}), 1, "http-status"),
    "a body cut short": (then(answer("200 OK", {"Content-Length": "9999"}, b"x"), answer("200 OK", {}, BODY)), 1,
                         "body-over-limit"),
    "cut short within the cap": (then(answer("200 OK", {"Content-Length": "8000"}, b"x" * 7000),
                                      answer("200 OK", {}, BODY)), 2, None),
    "not there": (answer("404 Not Found"), 1, "http-status"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.asyncio(loop_scope="module")
async def test_only_what_can_pass_is_tried_again(fetcher: Fetcher, case: str) -> None:
    """Another try where it can help, into an empty file; the record counts them; what is permanent is asked once."""
    script, tries, rule = CASES[case]
    async with origin({"/": script}) as web:
        record, body = await fetch(queue(fetcher, tries=3), web.url("/"))
        assert len(web.requests) == tries
    assert record.tries == tries
    assert (record.failure and record.failure.rule) == rule
    assert body == (BODY if rule is None else b"")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_url_takes_no_try(fetcher: Fetcher) -> None:
    """What the policy refuses, or cannot be read at all, is refused once, without a connection."""
    fetches = queue(fetcher, tries=3)
    for url in ("http://127.0.0.9/", "http://user@127.0.0.1/", "not a url"):
        record, _ = await fetch(fetches, url)
        assert record.failure is not None
        assert (record.failure.error, record.tries, record.hops) == (PolicyDenied.__name__, 1, ())


@pytest.mark.asyncio(loop_scope="module")
async def test_no_slot_is_held_between_tries(fetcher: Fetcher) -> None:
    """With one slot, another fetch gets through while the first waits for its next try."""
    asked = asyncio.Event()

    async def busy(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await answer("429 Slow", {"Retry-After": "4"})(writer)

    async with origin({"/busy": busy, "/": answer("200 OK", {}, BODY)}) as web:
        fetches = queue(fetcher, slots=1, tries=2)
        waiting = asyncio.create_task(fetch(fetches, web.url("/busy")))
        await asked.wait()
        async with asyncio.timeout(3):
            _, body = await fetch(fetches, web.url("/"))
        assert body == BODY
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.asyncio(loop_scope="module")
async def test_tries_end_when_their_time_is_spent(fetcher: Fetcher) -> None:
    """No try begins whose pause would go over the time that all may take together (`fetch_tries_s`)."""
    limits = LIMITS.changed({"fetch_tries_s": 1})
    async with origin({"/": answer("503 Busy", {"Retry-After": "2"})}) as web:
        record, _ = await fetch(queue(fetcher, tries=9, limits=limits), web.url("/"))
    assert (record.tries, record.failure and record.failure.rule) == (1, "http-status")


def test_the_pause_before_another_try() -> None:
    """It doubles, is spread by jitter, and comes on top of what the server asked for, within `fetch_retry_after_s`."""
    limits = Limits().changed({"retry_delay_s": 8, "fetch_retry_after_s": 30})
    passing = Failure(FetchUnavailable.__name__, "http-status", "expected 200, got 503")
    told = Failure(FetchUnavailable.__name__, "http-status", "expected 200, got 503", 30.0)
    patient = Failure(FetchUnavailable.__name__, "http-status", "expected 200, got 503", 31.0)
    lasting = Failure(FetchError.__name__, "http-status", "expected 200, got 404")
    assert [pause_s(passing, tries, 1.0, limits) for tries in (1, 2, 3, 9)] == [0.5, 1.0, 2.0, 8.0]
    assert pause_s(passing, 1, 0.0, limits) == 0.25
    assert pause_s(told, 1, 1.0, limits) == 30.5
    assert pause_s(patient, 1, 1.0, limits) is None
    assert pause_s(lasting, 1, 1.0, limits) is None
