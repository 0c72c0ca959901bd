"""Opens staged files, and only those, for the engine.

A media URL must be `file://<staging root>/<tenant>/<64 hex>.<extension>`, or without the tenant. The file is opened
beneath the root one component at a time without following links, read inside its bound, and its bytes must have the
digest that its name says. Exactly those verified bytes go to the engine as a `data:` URL (the wheel 0.9.5 takes one
for each modality), so nothing can change between the check and the use, and the engine itself opens no file.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

from contracts.artifact import MEDIA_TYPES, Modality
from contracts.digest import Digest, VerifyingReader
from contracts.errors import InputError, IntegrityError, MediaRejected

MEDIA_BYTES = 64 << 20  # per file: what the engine's own server allows a medium from 0.8.18 on

_NAME = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._-]{0,127})/)?([0-9a-f]{64})\.([a-z0-9]{1,5})")
_ACCEPTED = {
    Modality.IMAGE: frozenset({"png", "jpg", "webp", "gif"}),
    Modality.AUDIO: frozenset({"wav", "flac", "ogg", "mp3"}),
    Modality.VIDEO: frozenset({"gif"}),  # for anything else the engine runs an ffmpeg that knows -vsync
}
_TYPES = {media_type.extension: media_type.name for media_type in MEDIA_TYPES.values()}
_BENEATH = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class StagedMedia:
    """The staging root as the engine's process sees it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._prefixes = (f"file://{root}/", f"{root.as_uri()}/")

    def data_url(self, url: str, modality: Modality) -> str:
        """The verified bytes of a staged file, as a `data:` URL.

        Raises InputError for a URL of any other form, MediaRejected for a type that the engine cannot take as that
        modality or a file over `MEDIA_BYTES`, IntegrityError for a file that is missing, no regular file, or not the
        bytes that its name says. Reasons name the digest, never a path.
        """
        tenant, digest, extension = self._parse(url)
        if extension not in _ACCEPTED[modality]:
            raise MediaRejected("staged-type", f"{digest}: a .{extension} file cannot be a {modality.value} part here")
        data = self._read(tenant, f"{digest.hex}.{extension}", digest)
        return f"data:{_TYPES[extension]};base64,{base64.b64encode(data).decode('ascii')}"

    def _parse(self, url: str) -> tuple[str | None, Digest, str]:
        for prefix in self._prefixes:
            if url.startswith(prefix) and (match := _NAME.fullmatch(url[len(prefix) :])):
                tenant, value, extension = match.groups()
                return tenant, Digest(value), extension
        raise InputError(
            "staged-url", "a media URL must name a staged file: file://<staging root>/[<tenant>/]<digest>.<ext>"
        )

    def _read(self, tenant: str | None, name: str, digest: Digest) -> bytes:
        try:
            descriptor = self._open(tenant, name)
            try:
                size_bytes = _checked_size(descriptor, digest)
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    return VerifyingReader(file, digest, size_bytes).read_all()
            finally:
                os.close(descriptor)
        except OSError as error:
            raise IntegrityError("staged-missing", f"{digest} is not staged: {error.strerror}") from None

    def _open(self, tenant: str | None, name: str) -> int:
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            folder = os.open(tenant or ".", _BENEATH | os.O_DIRECTORY, dir_fd=root)
        finally:
            os.close(root)
        try:
            return os.open(name, _BENEATH | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)


def _checked_size(descriptor: int, digest: Digest) -> int:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise IntegrityError("staged-missing", f"{digest} is not staged: not a regular file")
    if facts.st_size > MEDIA_BYTES:
        raise MediaRejected("staged-size", f"{digest}: {facts.st_size} bytes, at most {MEDIA_BYTES}")
    return facts.st_size
