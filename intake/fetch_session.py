"""One child from its start to its end: packets to it and from it, and everybody who waits for it.

Whatever ends the child or the channel ends every fetch that waits, at once and by a rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from contracts.errors import ChildFailed, EvidenceError, NeedMissing
from contracts.limits import Limits
from contracts.network_policy import NetworkPolicy
from contracts.records import SOURCE_ERRORS
from intake.frames import (
    Cancel,
    Configure,
    Done,
    Failed,
    Fetch,
    PacketChannel,
    Policy,
    Ready,
    Report,
    Unfit,
    memory_file,
    read_report,
)
from sandbox.confine import RESOLVER_FILES, UNSAFE
from sandbox.namespaces import View
from sandbox.spawn import MINIMAL_ENVIRONMENT, Child, spawn

ENVIRONMENT: Mapping[str, str] = {**MINIMAL_ENVIRONMENT, "LOCALDOMAIN": ".", "RES_OPTIONS": "timeout:2 attempts:2"}
"""Its resolver searches the root alone: in a container it would look for `a.example.org` in the cluster's domains first
(resolv.conf(5): search, ndots), and have another host's bytes than the record says."""
VIEW = View(("intake",), RESOLVER_FILES)
"""What there is for the fetcher beside the interpreter: no other file of the host, where namespaces can be made."""
_CONFIGURATION = tuple(Path(name) for name in RESOLVER_FILES if name.startswith("/etc/"))
_START_S = 30.0  # imports and the TLS context take 0.4 s on an idle machine
_POLICIES = 64  # that a child knows at once; one of an earlier fetch is told again when it is needed
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """How to start a child."""

    limits: Limits
    extra_anchors: str | None
    stderr: int | None
    silence_s: float
    module: str
    unsafe: bool


class FetchSession:
    """One child from its start to its end, and the fetches that wait for it."""

    def __init__(self, child: Child, channel: PacketChannel, patience_s: float) -> None:
        self.child = child
        self.layers: tuple[str, ...] = ()
        self._channel = channel
        self._patience_s = patience_s
        self._waiting: dict[int, asyncio.Future[Done | Failed]] = {}
        self._last_id = 0
        self._policies: OrderedDict[NetworkPolicy, int] = OrderedDict()
        self._telling = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._resolver_files = _resolver_files()
        self._is_retired = False
        self.is_live = True

    @classmethod
    async def start(cls, plan: FetchPlan) -> FetchSession:
        """Start a child and wait until it is confined. Raises NeedMissing, or ChildFailed `fetcher-start`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = PacketChannel(ours)
        child = spawn(plan.module, channel=theirs, environment=ENVIRONMENT, stderr=plan.stderr, view=VIEW)
        session = cls(child, channel, plan.limits.fetch_total_s + plan.silence_s)
        try:
            async with asyncio.timeout(_START_S):
                with memory_file((plan.extra_anchors or "").encode()) as anchors:
                    await channel.send(Configure(asdict(plan.limits), plan.unsafe), [anchors])
                session.layers = await session._receive_ready()
                if UNSAFE in session.layers:
                    _log.warning("the fetcher runs without isolation, as the settings let it")
        except (TimeoutError, OSError) as error:
            session.fail(ChildFailed("fetcher-start", "ended"))
            raise ChildFailed("fetcher-start", f"the fetcher did not start ({type(error).__name__})") from error
        except BaseException:
            session.fail(ChildFailed("fetcher-start", "ended"))
            raise
        session._listener = asyncio.create_task(session._listen())
        return session

    async def fetch(self, url: str, policy: NetworkPolicy, max_bytes: int, into: int) -> Done | Failed:
        """Order one fetch and wait for its end."""
        self._last_id += 1
        order = self._last_id
        future: asyncio.Future[Done | Failed] = asyncio.get_running_loop().create_future()
        self._waiting[order] = future
        try:
            async with asyncio.timeout(self._patience_s):
                await self._order(order, url, policy, max_bytes, into)
                return await future
        except asyncio.CancelledError:
            await self._cancel(order)
            raise
        except TimeoutError as error:
            silent = ChildFailed("fetcher-silent", f"no word within {self._patience_s:g} s")
            self.fail(silent)
            raise silent from error
        except OSError as error:
            raise ChildFailed("fetcher-died", "the fetcher is gone") from error
        finally:
            self._waiting.pop(order, None)
            if future.done() and not future.cancelled():
                future.exception()  # nobody else looks where the order itself was what failed
            self._end_if_retired()

    @property
    def sees_names_as_we_do(self) -> bool:
        """Whether the resolver's files are those of its start: one that was replaced by another (DHCP does so) is out
        of a confined child's sight."""
        return self._resolver_files == _resolver_files()

    def retire(self) -> None:
        """Take no more orders, and end with the last fetch that waits."""
        self._is_retired = True
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._waiting:
            self.fail(ChildFailed("fetcher-closed", "the fetcher was replaced"))

    def fail(self, error: ChildFailed) -> None:
        """Kill the child and end every fetch that waits for it with `error`. Idempotent."""
        self.is_live = False
        if self._listener is not None:
            self._listener.cancel()
        self.child.kill()
        self._channel.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ChildFailed(error.rule, error.reason))

    async def aclose(self) -> None:
        """End the child."""
        self.fail(ChildFailed("fetcher-closed", "the fetcher was closed"))
        if self._listener is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    async def _receive_ready(self) -> tuple[str, ...]:
        packet, descriptors = await self._channel.receive()
        if not packet:
            code = await self.child.wait()
            reason = f"the fetcher ended before it was confined (code {code}); its stderr says why"
            raise NeedMissing("fetcher-start", reason)
        ready = _read(packet, descriptors)
        if isinstance(ready, Unfit):
            raise NeedMissing(ready.rule, ready.reason)
        if not isinstance(ready, Ready):
            raise ChildFailed("fetcher-protocol", "expected a Ready packet first")
        return tuple(ready.layers)

    async def _order(self, order: int, url: str, policy: NetworkPolicy, max_bytes: int, into: int) -> None:
        """Packets arrive as they were sent, so the child knows a policy before the first fetch under it.

        The lock is held over both: a number is not given to another policy in between.
        """
        async with self._telling:
            if policy not in self._policies:
                await self._tell(policy)
            self._policies.move_to_end(policy)
            await self._channel.send(Fetch(order, url, self._policies[policy], max_bytes), [into])

    async def _tell(self, policy: NetworkPolicy) -> None:
        number = len(self._policies)
        if number == _POLICIES:
            _, number = self._policies.popitem(last=False)
        with memory_file(msgspec.json.encode(policy.to_json())) as document:
            await self._channel.send(Policy(number), [document])
        self._policies[policy] = number

    async def _cancel(self, order: int) -> None:
        with contextlib.suppress(OSError, EvidenceError):
            await self._channel.send(Cancel(order))

    async def _listen(self) -> None:
        ended = ChildFailed("fetcher-died", "the fetcher ended while it held fetches")
        try:
            while True:
                packet, descriptors = await self._channel.receive()
                if not packet:
                    break
                self._take(_read(packet, descriptors))
        except ChildFailed as error:
            ended = error
        except Exception as error:  # whatever it was, nobody listens any more, so nobody may wait
            _log.exception("the fetcher's channel failed")
            ended = ChildFailed("fetcher-channel", type(error).__name__)
        finally:
            self._listener = None
            self.fail(ended)

    def _take(self, report: Report) -> None:
        if isinstance(report, Ready | Unfit) or not 0 < report.id <= self._last_id:
            raise ChildFailed("fetcher-protocol", "a report about nothing that was ordered")
        future = self._waiting.get(report.id)
        if future is None or future.done():
            return  # cancelled meanwhile
        if isinstance(report, Failed) and report.error not in SOURCE_ERRORS:
            raise ChildFailed("fetcher-protocol", "an error of no known class")
        future.set_result(report)


def _read(packet: bytes, descriptors: list[int]) -> Report:
    for descriptor in descriptors:
        os.close(descriptor)
    if descriptors:
        raise ChildFailed("fetcher-protocol", "the fetcher sent a descriptor")
    return read_report(packet)


def _resolver_files() -> tuple[tuple[int, int] | None, ...]:
    """Which files the resolver's configuration is in: device and inode of each, None for one that is not there."""
    return tuple(_identity(path) for path in _CONFIGURATION)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
