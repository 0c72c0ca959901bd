"""Giving a blob's bytes the name under which workers read them: as cheaply as the file system allows, and verified.

Another name for the blob's own file, where the store is on the same file system and its file may be read by whom the
staged one may; else a file that shares its blocks (reflink: XFS, btrfs); else a copy, of whatever store. A name is
only ever given to bytes that were read whole and had the digest.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from contracts.artifact import Artifact
from contracts.digest import VerifyingReader
from contracts.errors import BlobMissing, IntegrityError
from contracts.ports import LocalBlobs, ServedBlobs
from storage.disk_errors import disk_errors
from storage.incoming import OURS, FileAccess, incoming, make_directory
from storage.regular_file import open_regular

_CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP})
_CANNOT_CLONE = frozenset({errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS})
_FICLONE = 0x40049409  # ioctl_ficlone(2)
_READABLE_BY_ALL = 0o004


class Publisher:
    """Makes staged files of blobs. `access` is that of the files; their folders can be entered by the same.

    Raises BlobMissing, IntegrityError for a damaged blob, which is set aside then, and StorageError.
    """

    def __init__(self, blobs: ServedBlobs, access: FileAccess = OURS) -> None:
        self._blobs = blobs
        self._access = access

    def make_folder(self, folder: Path) -> None:
        """Create a folder of staged files, that those can enter who may read them; one that exists is left."""
        if folder.is_dir():
            return
        make_directory(folder, 0o700)
        with suppress(FileNotFoundError):
            if self._access.group is not None:
                os.chown(folder, -1, self._access.group)
            folder.chmod(0o755 if self._access.mode & _READABLE_BY_ALL else 0o750)

    def is_whole(self, artifact: Artifact, path: Path) -> bool:
        """Whether the artifact's bytes are at `path`; a file with other ones is removed, to be made anew."""
        try:
            with disk_errors(f"read staged {artifact.digest}"), suppress(FileNotFoundError):
                with open(path, "rb", opener=open_regular) as file:
                    _verify(artifact, file)
                return True
        except IntegrityError:
            with disk_errors(f"remove staged {artifact.digest}"):
                path.unlink(missing_ok=True)
        return False

    def publish(self, artifact: Artifact, path: Path, progress: Callable[[], object]) -> None:
        """Give the artifact's bytes the name `path`, which nobody else gives them meanwhile.

        `progress` is called again and again while bytes are copied.
        """
        try:
            with disk_errors(f"stage {artifact.digest}"):
                self.make_folder(path.parent)
                source = self._blobs.local_path(artifact.digest) if isinstance(self._blobs, LocalBlobs) else None
                shared = source is not None and (
                    self._linked(artifact, source, path) or self._cloned(artifact, source, path)
                )
                if not shared:
                    self._copy(artifact, path, progress)
        except IntegrityError:
            self._blobs.quarantine(artifact.digest)  # which looks for itself: a wrong size may be only the artifact's
            raise

    def _linked(self, artifact: Artifact, source: Path, path: Path) -> bool:
        with self._blobs.open(artifact.digest, artifact.size_bytes) as reader:
            reader.read_to_end()
        try:
            if not self._access.holds_for(source.stat()):
                return False  # and the blob's own file is not changed for it
            os.link(source, path)
        except FileNotFoundError as error:
            raise BlobMissing("blob-missing", f"{artifact.digest} left the store while it was staged") from error
        except OSError as error:
            if error.errno in _CANNOT_LINK:
                return False
            raise
        return True

    def _cloned(self, artifact: Artifact, source: Path, path: Path) -> bool:
        with incoming(path.parent) as file, open(source, "rb", opener=open_regular) as blob:
            try:
                fcntl.ioctl(file.fd, _FICLONE, blob.fileno())
            except OSError as error:
                if error.errno in _CANNOT_CLONE:
                    return False
                raise
            with os.fdopen(os.dup(file.fd), "rb") as clone:  # this, not what it was made of
                _verify(artifact, clone)
            file.publish(path, self._access)
        return True

    def _copy(self, artifact: Artifact, path: Path, progress: Callable[[], object]) -> None:
        with incoming(path.parent) as file:
            with self._blobs.open(artifact.digest, artifact.size_bytes) as reader:
                for data in reader:
                    file.write(data)
                    progress()
            file.publish(path, self._access)


def _verify(artifact: Artifact, file: BinaryIO) -> None:
    with VerifyingReader(file, artifact.digest, artifact.size_bytes) as reader:
        reader.read_to_end()
