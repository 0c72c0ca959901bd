"""Connections kept for the next fetch from the same place under the same policy: few, and not for long."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from contracts.network_policy import NetworkPolicy
from contracts.url_grammar import Target
from intake.children.fetch_connection import Connection, Head

_KEPT = 64  # of all places together; the oldest is closed for a newer one
_KEPT_S = 5.0  # shorter than servers keep theirs, so that few are lost in use

Place = tuple[NetworkPolicy, str, str, int]


class KeptConnections:
    """A connection was vetted under one policy for one scheme, host and port, and is never used for another."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Connection, Place] = OrderedDict()
        self._places: dict[Place, list[Connection]] = {}

    def take(self, policy: NetworkPolicy, target: Target) -> Connection | None:
        """The connection to `target` that was used last, if one still stands and is quiet."""
        place = _place(policy, target)
        while place in self._places:
            connection = self._places[place][-1]
            self._forget(connection)
            if connection.is_quiet:
                return connection
            connection.abort()
        return None

    def put(self, policy: NetworkPolicy, target: Target, connection: Connection, head: Head) -> None:
        """Keep `connection` if its exchange, whose answer has `head`, left it whole, else close it."""
        if not connection.is_reusable(head):
            connection.abort()
            return
        place = _place(policy, target)
        self._kept[connection] = place
        self._places.setdefault(place, []).append(connection)
        asyncio.get_running_loop().call_later(_KEPT_S, self._expire, connection, connection.exchanges)
        if len(self._kept) > _KEPT:
            self._close(next(iter(self._kept)))

    def close(self) -> None:
        """Close all."""
        while self._kept:
            self._close(next(iter(self._kept)))

    def _expire(self, connection: Connection, exchanges: int) -> None:
        if connection in self._kept and connection.exchanges == exchanges:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: Connection) -> None:
        place = self._kept.pop(connection)
        self._places[place].remove(connection)
        if not self._places[place]:
            del self._places[place]


def _place(policy: NetworkPolicy, target: Target) -> Place:
    return policy, target.scheme, target.host, target.port
