"""Where a home with a stack keeps its blobs and its ledger: in the home, or in the stack's own parts.

The second is told to every command of the home by a settings file, `<home>/stack/storage.toml`, the weakest source
but the defaults. What it names is there while the stack is up, and only then.
"""

from __future__ import annotations

import json
import os

from contracts.errors import InputError, StorageError
from stack.folder import StackFolder, StorageOf
from stack.part import Plan
from stack.postgres import LEDGER_DATABASE
from stack.seaweed import BUCKET, REGION


def storage_in_force(folder: StackFolder) -> StorageOf:
    """What was chosen; once it is, it stays."""
    return StorageOf.STACK if folder.storage.exists() else StorageOf.HOME


def check_storage(folder: StackFolder, wanted: StorageOf | None) -> None:
    """Raise InputError (stack-storage) where `wanted` would put what the home already holds out of sight."""
    if wanted is None or wanted is storage_in_force(folder):
        return
    if wanted is StorageOf.HOME:
        told = f"{folder.home} keeps its ledger in the stack"
        raise InputError("stack-storage", f"{told}: another MOSAIC_HOME can keep its own")
    if (folder.home / "ledger").exists():
        told = f"{folder.home} has a ledger of its own, whose receipts would be out of sight"
        raise InputError("stack-storage", f"{told}: give the stack another MOSAIC_HOME")


def write_storage(plan: Plan) -> None:
    """Say to every command of the home that its ledger and its blobs are in the stack. Raises StorageError."""
    values = {
        "database_url": plan.database_url(LEDGER_DATABASE),
        "blob_store": f"s3://{BUCKET}",
        "s3_endpoint_url": plan.s3_url,
        "s3_region": REGION,
        "s3_access_key_id": plan.secrets.s3_access_key.reveal(),
        "s3_secret_access_key": plan.secrets.s3_secret_key.reveal(),
    }
    path = plan.folder.storage
    partial = path.with_suffix(".partial")
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.writelines(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        os.replace(partial, path)  # noqa: PTH105  # atomic: a reader sees the old one or the new one
    except OSError as error:
        raise StorageError("stack-storage", f"cannot write {path}: {error.strerror}") from error
