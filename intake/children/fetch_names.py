"""Names to addresses, by the host's own resolver in threads, so that a slow name server holds up its own names only.

A resolution in a thread cannot be cancelled: it ends when the resolver gives up (`RES_OPTIONS` says when). So fetches
that ask for one name at the same time share one resolution, and the names beneath one domain share a few threads.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from contracts.errors import FetchError, FetchUnavailable

THREADS = 128
STACK_BYTES = 1 << 20  # a thread's; the default of 8 MiB would take the child's whole address space
_THREADS_PER_DOMAIN = 16  # by the last two labels; eight slow domains at once before others wait
_TRY_AGAIN = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM, socket.EAI_MEMORY})


class Names:
    """The resolutions under way. Nothing is remembered after its end: every hop is resolved anew (step 3)."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}
        self._domains: dict[str, asyncio.Semaphore] = {}

    async def resolve(self, host: str, port: int) -> list[str]:
        """All addresses of `host`, as the resolver orders them.

        Raises FetchUnavailable `dns-unavailable` where asking again can help, else FetchError `dns-no-answer`.
        """
        try:
            return await self._ask(host, port)
        except socket.gaierror as error:
            if error.errno in _TRY_AGAIN:
                reason = f"{host}: name resolution failed ({error.errno})"
                raise FetchUnavailable("dns-unavailable", reason) from error
            raise FetchError("dns-no-answer", f"{host} has no address") from error
        except UnicodeError as error:  # the resolver's own IDNA codec, for a label over 63 characters
            raise FetchError("dns-no-answer", f"{host} is no name that can be resolved") from error

    async def _ask(self, host: str, port: int) -> list[str]:
        if (host, port) not in self._under_way:
            domain = ".".join(host.rsplit(".", 2)[-2:])
            slots = self._domains.setdefault(domain, asyncio.Semaphore(_THREADS_PER_DOMAIN))
            await slots.acquire()
            if (host, port) in self._under_way:  # somebody else asked while we waited
                slots.release()
            else:
                self._start(host, port, domain, slots)
        return await asyncio.shield(self._under_way[host, port])

    def _start(self, host: str, port: int, domain: str, slots: asyncio.Semaphore) -> None:
        future = asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)
        self._under_way[host, port] = future

        def ended(done: asyncio.Future[list[str]]) -> None:
            del self._under_way[host, port]
            slots.release()
            if len(self._domains) > THREADS and not slots.locked():
                self._domains.pop(domain, None)
            if not done.cancelled():
                done.exception()  # those who asked may all be gone: then nobody else looks at it

        future.add_done_callback(ended)


def _addresses(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
