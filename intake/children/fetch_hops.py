"""What is noted of a hop while it happens, so that a fetch that is refused or fails has its record as well."""

from __future__ import annotations

import time
from collections.abc import Sequence

from contracts.digest import Digest
from contracts.http_facts import recorded_headers, shown_url
from contracts.records import Hop, TlsFacts
from contracts.url_grammar import Target

_ANSWERS = 64  # of a name that resolves to more, the first ones are noted


class HopLog:
    """One hop in the making. Everything that hostile parties send is bounded where it is noted."""

    def __init__(self, target: Target, *, with_query: bool) -> None:
        self.vetted: tuple[str, ...] = ()
        self.dialled: str | None = None
        self.tls: TlsFacts | None = None
        self.retry_after_s: float | None = None
        self._target = target
        self._with_query = with_query
        self._began = time.monotonic()
        self._answers: tuple[str, ...] = ()
        self._status: int | None = None
        self._headers: tuple[tuple[str, str], ...] = ()
        self._framing: str | None = None
        self._at: dict[str, float] = {}

    def resolved(self, answers: Sequence[str]) -> None:
        """The name has these addresses; none of them was vetted yet."""
        self._answers = tuple(answers[:_ANSWERS])
        self._mark("resolved")

    def connected(self) -> None:
        """The dialled address accepted."""
        self._mark("connected")

    def secured(self, tls: TlsFacts) -> None:
        """The TLS session stands."""
        self.tls = tls
        self._mark("tls")

    def reused(self, earlier: HopLog) -> None:
        """The connection is the one that an earlier hop made: its addresses and TLS session are this one's."""
        self._answers, self.vetted = earlier._answers, earlier.vetted
        self.dialled, self.tls = earlier.dialled, earlier.tls

    def renewed(self) -> None:
        """The earlier connection was gone: a new one is made."""
        self._answers, self.vetted, self.dialled, self.tls = (), (), None, None

    def answered(self, status: int, headers: Sequence[tuple[bytes, bytes]], framing: str) -> None:
        """The head is there."""
        self._status, self._framing = status, framing
        self._headers = recorded_headers(headers, with_query=self._with_query)
        self._mark("head")

    def ended(self) -> None:
        """Nothing more happens on this hop; without a head, its time ends here."""
        self._at.setdefault("head", time.monotonic() - self._began)

    def to_hop(self) -> Hop:
        """The hop as far as it came."""
        return Hop(
            url=shown_url(self._target.url, with_query=self._with_query),
            url_digest=Digest.of(self._target.url.encode()),
            status=self._status,
            vetted=self.vetted,
            dialled=self.dialled,
            tls=self.tls,
            headers=self._headers,
            framing=self._framing,
            seconds=self._at.get("head", 0.0),
            answers=self._answers,
            resolved_s=self._at.get("resolved"),
            connected_s=self._at.get("connected"),
            tls_s=self._at.get("tls"),
        )

    def _mark(self, what: str) -> None:
        self._at[what] = time.monotonic() - self._began
