"""The parent against a child that lies: what can be measured is, and a liar is replaced."""

from __future__ import annotations

import os
import tempfile

import pytest

from contracts.errors import ChildFailed, EvidenceError
from contracts.limits import Limits
from contracts.network_policy import PUBLIC_WEB
from intake.fetcher import Fetcher

QUICK = Limits().changed({"fetch_total_s": 0.1})


async def fetch(fetcher: Fetcher, lie: str) -> int:
    """Fetch by the lie's name; the size recorded."""
    with tempfile.TemporaryFile() as file:
        url = f"http://a.example.com/{lie}"
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
    """A child that ends before it is confined makes the start fail, not a fetch hang."""
    with pytest.raises(EvidenceError, match="fetcher-start"):
        async with Fetcher(module="tests.intake.no_such_child"):
            pass
