"""Where the stack of one MOSAIC_HOME keeps what it needs: data of its parts, secrets, ports, what is running."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path

from contracts.errors import StorageError
from settings.secret import Secret
from settings.sources import STACK_STORAGE

SECRET_BYTES = 32


class StorageOf(str, Enum):
    """Whose storage a home uses."""

    HOME = "home"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class StackFolder:
    """Paths below `<home>/stack`. Its parts' data stay when the stack is taken down."""

    home: Path

    @property
    def root(self) -> Path:
        """All of it but the logs."""
        return self.home / "stack"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "lock"

    @property
    def report(self) -> Path:
        """What the supervisor last said of itself and its parts."""
        return self.root / "report.json"

    @property
    def ports(self) -> Path:
        """The ports that were chosen, so that addresses stay."""
        return self.root / "ports.json"

    @property
    def deployed(self) -> Path:
        """Which start of the stack has its deployments."""
        return self.root / "deployed"

    @property
    def storage(self) -> Path:
        """Settings of this home that put its storage into the stack, where that was chosen (settings/load reads it)."""
        return self.home / STACK_STORAGE

    @property
    def secrets(self) -> Path:
        """One file a secret, for this user alone."""
        return self.root / "secrets"

    @property
    def logs(self) -> Path:
        """A file a part, bounded by the supervisor."""
        return self.home / "logs"

    def make(self) -> None:
        """Make the folders. The root can be passed through by PostgreSQL's user, who has a folder of its own in it."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, mode in ((self.root, 0o711), (self.secrets, 0o700), (self.logs, 0o700)):
            path.mkdir(exist_ok=True)
            path.chmod(mode)


@dataclass(frozen=True, slots=True)
class StackSecrets:
    """What opens the parts; each is made once, at random, and kept in a file of its name."""

    prefect_auth: Secret
    """`user:password`, as Prefect's server and clients take it."""
    postgres_password: Secret
    s3_access_key: Secret
    s3_secret_key: Secret


def stack_secrets(folder: StackFolder) -> StackSecrets:
    """Read the secrets, making those that are missing. Raises StorageError."""
    try:
        return StackSecrets(**{each.name: _secret(folder.secrets, each.name) for each in fields(StackSecrets)})
    except OSError as error:
        raise StorageError("stack-secrets", f"cannot keep {error.filename}: {error.strerror}") from error


def _secret(folder: Path, name: str) -> Secret:
    path = folder / name.replace("_", "-")
    made = secrets.token_hex(SECRET_BYTES)
    text = f"mosaic:{made}" if name == "prefect_auth" else made
    try:
        with path.open("x", encoding="ascii") as file:
            path.chmod(0o600)  # before anything is in it
            file.write(text)
    except FileExistsError:
        text = path.read_text("ascii").strip()
    if not text:
        raise StorageError("stack-secrets", f"{path} is empty: remove it, and it is made again")
    return Secret(text)
