"""Secrets, logs, and where a home keeps its storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InputError, StorageError
from settings.load import load
from stack.folder import StackFolder, StorageOf, stack_secrets
from stack.logs import keep_bounded
from stack.main import plan_of
from stack.ports import choose_ports
from stack.storage import check_storage, storage_in_force, write_storage


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    """An empty stack's folder."""
    made = StackFolder(tmp_path)
    made.make()
    return made


def test_secrets_are_made_once(folder: StackFolder) -> None:
    """Each is another one, 256 bits long, in a file for this user alone; an emptied file is refused, not used."""
    made = stack_secrets(folder)
    texts = {secret.reveal() for secret in (made.postgres_password, made.s3_access_key, made.s3_secret_key)}
    assert len(texts) == 3
    assert all(len(text) == 64 for text in texts)
    assert made.prefect_auth.reveal().startswith("mosaic:")
    assert stack_secrets(folder) == made
    assert {path.stat().st_mode & 0o777 for path in folder.secrets.iterdir()} == {0o600}
    assert not any(text in repr(made) for text in texts)
    (folder.secrets / "s3-secret-key").write_text("")
    with pytest.raises(StorageError, match="s3-secret-key"):
        stack_secrets(folder)


def test_logs_stay_bounded(tmp_path: Path) -> None:
    """A log over the bound is moved aside under its writer, which goes on at the beginning; others are left alone."""
    log, small = tmp_path / "stack-s3.log", tmp_path / "small.log"
    small.write_bytes(b"ten bytes.")
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 11)
        keep_bounded(tmp_path, log_bytes=10)
        writer.write(b"more")
    assert log.read_bytes() == b"more"
    assert (tmp_path / "stack-s3.log.1").read_bytes() == b"x" * 11
    assert small.read_bytes() == b"ten bytes."
    assert not (tmp_path / "small.log.1").exists()


def test_storage_in_the_stack(folder: StackFolder) -> None:
    """What is written is what every command of the home has in force, and where it came from; what is set by others
    goes before it, and an endpoint of theirs is not given our keys."""
    home = {"MOSAIC_HOME": str(folder.home)}
    settings = load(environment=home)
    plan = plan_of(settings, choose_ports(folder.ports, {}))
    assert storage_in_force(folder) is StorageOf.HOME
    write_storage(plan)
    assert storage_in_force(folder) is StorageOf.STACK
    assert folder.storage.stat().st_mode & 0o777 == 0o600
    found = load(environment=home)
    assert found.database_url is not None
    assert found.database_url.reveal() == plan.database_url("ledger")
    assert (found.blob_store, found.s3_endpoint_url) == ("s3://mosaic", plan.s3_url)
    assert found.provenance["blob_store"] == str(folder.storage)
    other = load(environment=home | {"MOSAIC_S3_ENDPOINT_URL": "https://objects.example.org"})
    assert (other.blob_store, other.s3_secret_access_key) == ("disk", None)
    assert other.database_url == found.database_url


def test_a_choice_of_storage_stays(folder: StackFolder) -> None:
    """Neither a home's own ledger nor the stack's is put out of sight."""
    check_storage(folder, None)
    check_storage(folder, StorageOf.HOME)
    check_storage(folder, StorageOf.STACK)
    folder.storage.touch()
    check_storage(folder, StorageOf.STACK)
    with pytest.raises(InputError, match="keeps its ledger in the stack"):
        check_storage(folder, StorageOf.HOME)
    folder.storage.unlink()
    (folder.home / "ledger").mkdir()
    with pytest.raises(InputError, match="has a ledger of its own"):
        check_storage(folder, StorageOf.STACK)
