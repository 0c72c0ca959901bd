"""Which blobs of a bucket the collector condemned: an object of their own each, `condemned/<64 hex>`.

Deleting and sparing meet in that object: it says `condemned`, `spared` or `deleting`, with a nonce, so that no two have
the same ETag, and goes from one to the next only by a PUT with If-Match. So of a collector that begins to delete and a
writer that spares, one finds it changed; a bucket has no other lock. A writer does not ask for each blob: it lists all
marks once in a while, and a mark stands for longer than that before it is acted on.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from contracts.digest import Digest
from contracts.errors import BlobMissing, InputError, StorageError
from storage.s3_objects import ConditionUnmet, ObjectFacts, S3Objects

_FOLDER = "condemned/"
_CONDEMNED, _SPARED, _DELETING = b"condemned", b"spared", b"deleting"
_FRESHER = 10  # a writer's list of the marks is at most the tenth of `settle_s` old
_WAIT_S, _PAUSE_S = 10.0, 0.2


class Condemned:
    """The marks of one store. Safe between threads, processes and hosts.

    `settle_s` is how long a mark stands before it is acted on, and a deletion before another may end it.
    """

    def __init__(self, objects: S3Objects, settle_s: float) -> None:
        self._objects = objects
        self._settle_s = settle_s
        self._lock = threading.Lock()
        self._listed_at = float("-inf")
        self._names: frozenset[str] = frozenset()

    def mark(self, digest: Digest) -> None:
        """Condemn; what is condemned or being deleted stays so."""
        try:
            self._objects.put(_key(digest), _saying(_CONDEMNED), IfNoneMatch="*")
        except ConditionUnmet:
            with suppress(BlobMissing, ConditionUnmet):
                state, facts = self._read(digest)
                if state == _SPARED:
                    self._objects.put(_key(digest), _saying(_CONDEMNED), IfMatch=facts.etag)

    def spare(self, digest: Digest) -> None:
        """Lift the mark, if there is one. Raises StorageError (`blob-being-deleted`) if a deletion does not end."""
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            try:
                state, facts = self._read(digest)
            except BlobMissing:
                return
            if state != _DELETING:
                with suppress(ConditionUnmet):
                    if state == _CONDEMNED:
                        self._objects.put(_key(digest), _saying(_SPARED), IfMatch=facts.etag)
                    self._objects.delete(_key(digest))
                    return
            time.sleep(_PAUSE_S)
        raise StorageError("blob-being-deleted", f"{digest} is being deleted since over {_WAIT_S:g} s; try again later")

    def spare_if_listed(self, digest: Digest) -> None:
        """`spare`, for one that a list of at most some seconds ago has."""
        with self._lock:
            if time.monotonic() - self._listed_at > self._settle_s / _FRESHER:
                begun = time.monotonic()  # what is marked from here on may not be in the list
                self._names = frozenset(name for name, _, _ in self._objects.list(_FOLDER))
                self._listed_at = begun
            listed = digest.hex in self._names
        if listed:
            self.spare(digest)

    def claim(self, digest: Digest, since: float) -> bool:
        """Begin a deletion. False if the blob is not condemned since then (to the second, as HTTP tells it), or not for
        long enough."""
        try:
            state, facts = self._read(digest)
            is_another = int(facts.modified_at) > int(since)
            if state == _SPARED or is_another or facts.now - facts.modified_at < self._settle_s:
                return False
            self._objects.put(_key(digest), _saying(_DELETING), IfMatch=facts.etag)
        except (BlobMissing, ConditionUnmet):
            return False
        return True

    def end(self, digest: Digest) -> None:
        """The deletion is done."""
        self._objects.delete(_key(digest))

    def all(self) -> Iterator[tuple[Digest, float]]:
        """Every mark and its time; one that was spared is gone soon."""
        for name, _, modified_at in self._objects.list(_FOLDER):
            with suppress(InputError):
                yield Digest(name), modified_at

    def _read(self, digest: Digest) -> tuple[bytes, ObjectFacts]:
        body = self._objects.get(_key(digest))
        try:
            state = body.read(64).partition(b" ")[0]
        finally:
            body.close()
        return state, body.facts


def _saying(state: bytes) -> bytes:
    return state + b" " + secrets.token_hex(8).encode()


def _key(digest: Digest) -> str:
    return f"{_FOLDER}{digest.hex}"
