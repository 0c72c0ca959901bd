"""A connection that is never made: its own limit, its own name."""

from __future__ import annotations

import contextlib
import socket
import tempfile

import pytest

from contracts.errors import FetchUnavailable
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from intake.fetcher import Fetcher

LOOPBACK = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
LIMITS = Limits().changed({"fetch_connect_s": 0.3})


async def test_a_connection_that_is_not_made_ends_at_its_limit() -> None:
    """A listener whose queue is full lets the kernel drop who dials: the fetch ends by the connect limit alone."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # more than a queue of none holds
            dialling = stack.enter_context(socket.socket())
            dialling.setblocking(False)
            dialling.connect_ex(listener.getsockname())
        file = stack.enter_context(tempfile.TemporaryFile())
        async with Fetcher(LIMITS) as fetcher:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            with pytest.raises(FetchUnavailable, match=r"connect-timeout: .*not connected within 0\.3 s"):
                (await fetcher.fetch(url, policy=LOOPBACK, max_bytes=10, into=file.fileno())).had()
