"""The calibration model's files: digests pinned here, unpacked once below a home.

The weights travel compressed (458 kB for 21 MB, nearly all of it constant rows that the engine's hard-coded media
ids demand). What stands under the home is hashed at every start, so a damaged file is found and made again. The
folder's name is not a bare digest, which would make it a blob.
"""

from __future__ import annotations

import fcntl
import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.digest import Digest
from contracts.errors import EvidenceError, IntegrityError, StorageError
from serving.model_bundle import ModelBundle, file_digest, manifest_digest

ROUTE = "mosaic-calibration"
WEIGHTS = "model.safetensors"
WEIGHTS_BYTES = 21_196_072
FILES = {
    "config.json": Digest("4ed94fda11b2e21a835c693e0e019897bb8fa6e01b8ce1176712593f5b93fffa"),
    "generation_config.json": Digest("fe314c610ede0fa4c8275c5158c0e3c28183ac4f1291a6a25d0b30f71052b835"),
    WEIGHTS: Digest("c67e1872edf6a38626f4d51aac354bdd1785a9e785c74814f93d4b71b6047479"),
    "preprocessor_config.json": Digest("f0244070c9bbe088a656e1552ddf8fc2379ce9490e5842eeaf0d80def9026b50"),
    "processor_config.json": Digest("74ba374be309789ca4f8f25f84d6b9abb58be6f6fe78f26e6290b58b0fccadbe"),
    "tokenizer.json": Digest("230bad140b9c47fe03e045f1cf7165f99ac93ff19a781b6570e93724fbab3f54"),
    "tokenizer_config.json": Digest("f79db21087d9f406858f12a9d89d541383e9405b4c4d17946e6de26d0a75623c"),
}
"""The unpacked bundle."""

PACKED_WEIGHTS = Digest("ff5c0d8d268504442d96aa65a6499da1da42659a48cf562c19ab59c52e097ffd")
BUNDLE_DIGEST = manifest_digest(FILES)

_SHIPPED = Path(__file__).parent / "bundle"
_FOLDER = f"calibration-{BUNDLE_DIGEST.hex[:16]}"
_DECODER_BYTES = 128 << 20  # xz at its highest preset needs 65 MiB
_STEP_BYTES = 1 << 20


def unpack(home: Path) -> ModelBundle:
    """The calibration bundle below `home`, made if it is not there whole.

    Safe against other unpackers (one lock) and against a crash at any point (rename as the last step). Raises
    IntegrityError when what the product ships is damaged, StorageError when the disk refuses.
    """
    try:
        with _locked(home / "engine") as engine:
            target = engine / _FOLDER
            if not _is_whole(target):
                _remake(engine, target)
    except OSError as error:
        raise StorageError("calibration-unpack", f"cannot write the engine's folder: {error.strerror}") from error
    return ModelBundle(target.resolve(), BUNDLE_DIGEST, ROUTE, calibration_model=True)


@contextmanager
def _locked(engine: Path) -> Iterator[Path]:
    engine.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (engine / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield engine


def _is_whole(folder: Path) -> bool:
    try:
        if {entry.name for entry in folder.iterdir()} != set(FILES):
            return False
        return all(file_digest(folder / name) == digest for name, digest in FILES.items())
    except (OSError, EvidenceError):
        return False


def _remake(engine: Path, target: Path) -> None:
    for leftover in engine.glob(".unpacking-*"):  # of an unpacker that died; the lock says none lives
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=engine))
    try:
        for name, digest in FILES.items():
            data = _expand_weights() if name == WEIGHTS else (_SHIPPED / name).read_bytes()
            if Digest.of(data) != digest:
                raise IntegrityError("calibration-file", f"{name}: expected {digest}, the {len(data)} bytes differ")
            _write_synced(temporary / name, data)
        _sync_folder(temporary)
        if target.exists():
            target.rename(temporary.with_name(f"{temporary.name}-damaged"))
        temporary.rename(target)
        _sync_folder(engine)
    finally:
        for leftover in engine.glob(".unpacking-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _expand_weights() -> bytes:
    """The weights, expanded never beyond the size that they must have."""
    packed = (_SHIPPED / f"{WEIGHTS}.xz").read_bytes()
    if Digest.of(packed) != PACKED_WEIGHTS:
        raise IntegrityError("calibration-file", f"{WEIGHTS}.xz: expected {PACKED_WEIGHTS}, got other bytes")
    expander = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DECODER_BYTES)
    expanded = bytearray(expander.decompress(packed, max_length=_STEP_BYTES))
    while not expander.eof and not expander.needs_input and len(expanded) <= WEIGHTS_BYTES:
        expanded += expander.decompress(b"", max_length=_STEP_BYTES)
    if len(expanded) != WEIGHTS_BYTES:
        raise IntegrityError("calibration-file", f"{WEIGHTS}: expected {WEIGHTS_BYTES} bytes, got other")
    return bytes(expanded)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o444)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
