"""A model bundle: a folder of files with one identity, the canonical digest of its manifest (file -> digest)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contracts.digest import CHUNK_BYTES, Digest, Hasher, canonical_digest
from contracts.errors import StorageError


@dataclass(frozen=True, slots=True)
class ModelBundle:
    """A bundle on this host. `route` is the model's name on the wire, which no host's path may leak into."""

    path: Path
    digest: Digest
    route: str
    calibration_model: bool


def manifest_digest(files: Mapping[str, Digest]) -> Digest:
    """The identity of a bundle: the digest of the canonical JSON of file name -> digest."""
    return canonical_digest({name: str(digest) for name, digest in files.items()})


def file_digest(path: Path) -> Digest:
    """The digest of a file's bytes. Raises StorageError when it cannot be read."""
    hasher = Hasher()
    try:
        with path.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                hasher.update(data)
    except OSError as error:
        raise StorageError("model-bundle-unreadable", f"{path.name}: {error.strerror}") from error
    return hasher.digest()


def measured(path: Path) -> ModelBundle:
    """The bundle that is the files of `path`, hashed now; its route is made from its digest.

    Raises StorageError when the folder is empty or cannot be read.
    """
    files = {entry.name: file_digest(entry) for entry in sorted(path.glob("*")) if entry.is_file()}
    if not files:
        raise StorageError("model-bundle-empty", "the model bundle's folder holds no file")
    digest = manifest_digest(files)
    return ModelBundle(path.resolve(), digest, f"mosaic-{digest.hex[:16]}", calibration_model=False)
