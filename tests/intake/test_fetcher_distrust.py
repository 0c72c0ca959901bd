"""The parent against a child that lies: what can be measured is, and a liar is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile

import pytest

from contracts.errors import ChildFailed, NeedMissing
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_WEB, NetworkPolicy
from intake.fetcher import Fetcher

URL = "http://a.example.com/"
QUICK = Limits().changed({"fetch_total_s": 0.1})


async def fetch(fetcher: Fetcher, lie: str) -> int:
    """Fetch by the lie's name; the size recorded."""
    with tempfile.TemporaryFile() as file:
        url = URL + lie
        record = await fetcher.fetch(url, policy=PUBLIC_WEB, max_bytes=100, into=file.fileno())
        return record.had()[1]


@pytest.mark.parametrize(
    ("lie", "rule"),
    [
        ("digest", "fetcher-digest"),
        ("size", "fetcher-digest"),
        ("unordered", "fetcher-protocol"),
        ("ready", "fetcher-protocol"),
        ("garbage", "fetcher-protocol"),
        ("oversize", "fetcher-protocol"),
        ("class", "fetcher-protocol"),
        ("descriptor", "fetcher-protocol"),
        ("silence", "fetcher-silent"),
    ],
)
async def test_a_lying_child_is_killed_and_replaced(lie: str, rule: str) -> None:
    """The fetch fails by a rule, the liar is dead, and the next fetch has another child."""
    async with Fetcher(QUICK, module="tests.intake.lying_fetcher", silence_s=0.3) as fetcher:
        assert await fetch(fetcher, "truth") == 16
        liar = fetcher.pid
        with pytest.raises(ChildFailed) as failed:
            await fetch(fetcher, lie)
        assert failed.value.rule == rule
        assert liar is not None
        with pytest.raises(ProcessLookupError):
            os.kill(liar, 0)
        assert await fetch(fetcher, "truth") == 16
        assert fetcher.pid != liar


async def test_a_child_that_cannot_start_is_named() -> None:
    """A child that ends before it is confined makes the start fail, not a fetch hang, and its exit code is said."""
    with pytest.raises(NeedMissing, match=r"fetcher-start: .*\(code 1\)"):
        async with Fetcher(module="tests.intake.no_such_child"):
            pass


async def test_what_a_child_lacks_is_said() -> None:
    """A child that cannot start says why, and the caller hears it."""
    with pytest.raises(NeedMissing, match="trust-anchors: the trust anchors cannot be read"):
        async with Fetcher(extra_anchors="-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n"):
            pass


async def test_a_child_that_stops_reading_ends_every_fetch() -> None:
    """Also those whose orders did not fit into the channel any more; the next fetch has another child."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(600)]
        async with Fetcher(QUICK, module="tests.intake.lying_fetcher", silence_s=0.5) as fetcher:
            stopped = fetcher.worker_pid
            assert stopped is not None
            os.kill(stopped, signal.SIGSTOP)
            fetches = (fetcher.fetch(URL + "truth", policy=PUBLIC_WEB, max_bytes=100, into=file) for file in files)
            async with asyncio.timeout(20):
                ends = await asyncio.gather(*fetches, return_exceptions=True)
            assert {type(end) for end in ends} == {ChildFailed}
            assert await fetch(fetcher, "truth") == 16
            assert fetcher.worker_pid != stopped


async def test_a_policy_may_be_longer_than_a_packet() -> None:
    """Thousands of denied networks reach the child, each policy in its turn."""
    many = tuple(f"{first}.{second}.0.0/16" for first in range(20, 60) for second in range(256))
    policies = [NetworkPolicy(f"many-{number}", deny_networks=many) for number in range(2)]
    async with Fetcher(QUICK, module="tests.intake.lying_fetcher", silence_s=5) as fetcher:
        for policy in policies:
            with tempfile.TemporaryFile() as file:
                url = URL + "truth"
                record = await fetcher.fetch(url, policy=policy, max_bytes=100, into=file.fileno())
                assert record.had()[1] == 16
