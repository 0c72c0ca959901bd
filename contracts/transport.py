"""How a medium is named in a request: by the path where it is staged, or by its bytes themselves.

Neither changes what a question is: its digest and those of artifacts and locators are the same either way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from contracts.artifact import Artifact
from contracts.digest import Digest
from contracts.errors import ContractRefused, IntegrityError
from contracts.limits import Limits
from contracts.profile import Profile

MediaUrls = Callable[[Artifact], str]
"""The URL of an artifact for the worker. A `DataUrls` is one whose requests hold the bytes."""

FILE, DATA = "file", "data"


@dataclass(frozen=True, slots=True)
class DataUrls:
    """`data:` URLs (RFC 2397) of artifacts. `read_bytes` gives the bytes, which are held against the digest."""

    read_bytes: Callable[[Artifact], bytes]

    def __call__(self, artifact: Artifact) -> str:
        """Raises IntegrityError (`artifact-digest`) for other bytes, and what `read_bytes` raises."""
        data = self.read_bytes(artifact)
        if Digest.of(data) != artifact.digest:
            raise IntegrityError("artifact-digest", f"expected {artifact.digest}, got {len(data)} other bytes")
        return _prefix(artifact) + base64.b64encode(data).decode("ascii")

    @staticmethod
    def size_bytes(artifact: Artifact) -> int:
        """The length of an artifact's URL, known before its bytes are read."""
        return len(_prefix(artifact)) + 4 * ((artifact.size_bytes + 2) // 3)


def media_urls(profile: Profile, *, staged_url: MediaUrls, read_bytes: Callable[[Artifact], bytes]) -> MediaUrls:
    """What an engine of `profile` takes when nothing stands between: staged paths, and else the bytes.

    A gateway of ours takes paths always and does this itself. Raises ContractRefused (`media-transport`) for an engine
    that takes neither.
    """
    if FILE in profile.media_transports:
        return staged_url
    if DATA in profile.media_transports:
        return DataUrls(read_bytes)
    raise ContractRefused("media-transport", f"{profile.version} takes neither {FILE} nor {DATA} URLs")


def body_bound(urls: MediaUrls, profile: Profile, limits: Limits) -> int:
    """How many bytes a request to an engine of `profile` may have whose media are named by `urls`."""
    return min(limits.request_data_bytes, profile.body_bytes) if isinstance(urls, DataUrls) else limits.request_bytes


def check_room(urls: MediaUrls, artifacts: tuple[Artifact, ...], profile: Profile, limits: Limits) -> None:
    """Raise ContractRefused where the media alone are too much, before a byte of them is read: `media-part-bytes` for
    one that the engine takes by no transport, `request-bytes` for all of them as data URLs."""
    for artifact in artifacts:
        if profile.media_part_bytes is not None and artifact.size_bytes > profile.media_part_bytes:
            reason = f"{profile.version} takes {profile.media_part_bytes} bytes a medium, got {artifact.size_bytes}"
            raise ContractRefused("media-part-bytes", reason)
    if not isinstance(urls, DataUrls):
        return
    bound = body_bound(urls, profile, limits)
    least = sum(urls.size_bytes(artifact) for artifact in artifacts)
    if least > bound:
        reason = f"expected at most {bound} bytes, the media alone have {least} as data URLs"
        raise ContractRefused("request-bytes", reason)


def _prefix(artifact: Artifact) -> str:
    return f"data:{artifact.media_type};base64,"
