"""The file behind a blob on disk, for tests that damage it."""

from __future__ import annotations

from pathlib import Path

from contracts.digest import Digest
from contracts.ports import BlobStore, LocalBlobs


def blob_file(blobs: BlobStore, digest: Digest) -> Path:
    """The file of a blob that is there."""
    assert isinstance(blobs, LocalBlobs)
    path = blobs.local_path(digest)
    assert path is not None
    return path


def overwrite_blob(blobs: BlobStore, digest: Digest, data: bytes) -> None:
    """Other bytes in the place of a blob's, as a failing disk or an intruder leaves them."""
    path = blob_file(blobs, digest)
    path.chmod(0o600)
    path.write_bytes(data)
