"""What refers to which blobs, read from the ledger: for the collector, for statistics, and for who finds damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import msgspec
from sqlalchemy import select

from contracts.digest import Digest
from contracts.errors import IntegrityError
from storage.database import Database
from storage.schema import attempt as attempts
from storage.schema import receipt as receipts

_ROWS_AT_ONCE = 500


class BlobKind(str, Enum):
    """What a blob is to a receipt. `ORIGINAL` is as acquired, also where the worker saw it unchanged; `DERIVATIVE` is
    what the worker saw in its place."""

    ORIGINAL = "original"
    DERIVATIVE = "derivative"
    REQUEST = "request"
    STREAM = "stream"

    @property
    def is_media(self) -> bool:
        """Whether retention may remove it; what was asked and answered stays with its receipt."""
        return self in (BlobKind.ORIGINAL, BlobKind.DERIVATIVE)


@dataclass(frozen=True, slots=True)
class ReceiptReferences:
    """The blobs that one receipt, or the draft of an open attempt, names. Times are epoch seconds.

    `receipt` is None for a draft.
    """

    receipt: Digest | None
    run: str
    tenant: str
    bundle_id: str
    created_at: float
    blobs: frozenset[tuple[Digest, BlobKind]]

    @property
    def media(self) -> frozenset[Digest]:
        """The digests of originals and derivatives."""
        return frozenset(digest for digest, kind in self.blobs if kind.is_media)

    @property
    def all(self) -> frozenset[Digest]:
        """Every digest."""
        return frozenset(digest for digest, _ in self.blobs)


class _Named(msgspec.Struct):
    digest: str


class _Part(msgspec.Struct):
    artifact: _Named | None = None
    original: str | None = None


class _Bundle(msgspec.Struct):
    id: str


class _Document(msgspec.Struct):
    """As much of a receipt as names blobs. Not verified: who follows these names reads the bytes."""

    run: str
    tenant: str
    bundle: _Bundle
    parts: list[_Part]
    request: _Named | None
    stream: _Named | None


def receipt_references(ledger: Database) -> Iterator[ReceiptReferences]:
    """The references of every receipt, oldest first, a page at a time.

    Raises IntegrityError for a row that cannot be read: then nobody knows what it refers to.
    """
    position = 0
    while True:
        query = select(receipts.c.position, receipts.c.id, receipts.c.document, receipts.c.created_at)
        page = query.where(receipts.c.position > position).order_by(receipts.c.position).limit(_ROWS_AT_ONCE)
        with ledger.read() as tx:
            rows = tx.execute(page).all()
        for row in rows:
            yield _references(Digest.parse(row.id), row.document, row.created_at, f"receipt {row.id}")
        if len(rows) < _ROWS_AT_ONCE:
            return
        position = rows[-1].position


def draft_references(ledger: Database) -> Iterator[ReceiptReferences]:
    """The references of every attempt that is open now. Raises IntegrityError."""
    query = select(attempts.c.id, attempts.c.draft, attempts.c.started_at).where(attempts.c.state == "open")
    with ledger.read() as tx:
        rows = tx.execute(query).all()
    for row in rows:
        yield _references(None, row.draft, row.started_at, f"the draft of attempt {row.id}")


def receipts_that_name(ledger: Database, digests: Iterable[Digest]) -> dict[Digest, tuple[Digest, ...]]:
    """By digest, the receipts that name it. Raises IntegrityError."""
    wanted = frozenset(digests)
    found: dict[Digest, list[Digest]] = {digest: [] for digest in wanted}
    for references in receipt_references(ledger) if wanted else ():
        if references.receipt is not None:
            for digest in references.all & wanted:
                found[digest].append(references.receipt)
    return {digest: tuple(named) for digest, named in found.items()}


def _references(receipt: Digest | None, document: bytes, created_at: float, what: str) -> ReceiptReferences:
    try:
        read = msgspec.json.decode(document, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IntegrityError("receipt-form", f"{what} cannot be read: {type(error).__name__}") from error
    blobs = frozenset(_blobs(read))
    return ReceiptReferences(receipt, read.run, read.tenant, read.bundle.id, created_at, blobs)


def _blobs(read: _Document) -> Iterator[tuple[Digest, BlobKind]]:
    for part in read.parts:
        if part.original is not None:
            yield Digest.parse(part.original), BlobKind.ORIGINAL
        if part.artifact is not None:
            kind = BlobKind.ORIGINAL if part.original is None else BlobKind.DERIVATIVE
            yield Digest.parse(part.artifact.digest), kind
    if read.request is not None:
        yield Digest.parse(read.request.digest), BlobKind.REQUEST
    if read.stream is not None:
        yield Digest.parse(read.stream.digest), BlobKind.STREAM
