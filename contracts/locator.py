"""Locators: where an artifact came from. A locator has a digest of its own.

An original's locator names its source (URL, path inside the bundle's folder, object in a bucket, bytes in the store).
A derivative's names its parent artifact and the exact transformation, so that anybody can make it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from contracts.digest import Digest, canonical_digest


@dataclass(frozen=True, slots=True)
class UrlSource:
    """The bytes were fetched. `url` is the requested URL without its query, which may hold a token;
    `url_digest` is the digest of the whole."""

    url: str
    url_digest: Digest

    @classmethod
    def of(cls, url: str) -> UrlSource:
        """Locate `url`, keeping its query only as part of the digest."""
        return cls(redact_url(url), Digest.of(url.encode()))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "url", "url": self.url, "url_digest": str(self.url_digest)}


@dataclass(frozen=True, slots=True)
class FileSource:
    """The bytes were a file inside the bundle's folder; `path` is relative to it, with forward slashes."""

    path: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": "file", "path": self.path}


@dataclass(frozen=True, slots=True)
class S3Source:
    """The bytes were an object in an S3 bucket; `version_id` None asks for the one that is current then (which one
    that was is in the acquisition's record)."""

    bucket: str
    key: str
    version_id: str | None = None

    @property
    def url(self) -> str:
        """`s3://bucket/key`, without the version."""
        return f"s3://{self.bucket}/{self.key}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "s3", "bucket": self.bucket, "key": self.key, "version_id": self.version_id}


@dataclass(frozen=True, slots=True)
class BlobSource:
    """The bytes were in the store already, acquired for the same tenant before."""

    digest: Digest

    def to_json(self) -> dict[str, Any]:
        return {"kind": "blob", "digest": str(self.digest)}


Source = UrlSource | FileSource | S3Source | BlobSource
"""Where an original comes from."""


@dataclass(frozen=True, slots=True)
class Derived:
    """The bytes were made from `parent` by `transformation` (name, parameters and tool versions)."""

    parent: Digest
    transformation: dict[str, Any] = field(hash=False)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "derived", "parent": str(self.parent), "transformation": self.transformation}


Locator = Source | Derived


def locator_digest(locator: Locator) -> Digest:
    """The identity of a locator."""
    return canonical_digest(locator.to_json())


_BEGINNING = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]\\]+)(?::[0-9]*)?")


def redact_url(url: str) -> str:
    """`url` without query, fragment and userinfo: what logs, records and errors may show.

    Where the host does not end as hosts do, what stands there may be a password with a `/`, `?` or `#` in it, so all
    before the last `@` goes, or all from the colon on. A reference that begins with one slash is a path and stays.
    """
    shown = re.split("[?#]", url, maxsplit=1)[0]
    if re.match(r"/(?![/\\])", shown):
        return shown
    beginning = _BEGINNING.match(shown)
    start = beginning.end() if beginning else 0
    authority, slash, path = shown[start:].partition("/")
    host = authority.rpartition("@")[2]
    cut_early = "@" in url[len(shown) :] and not slash  # some parsers take all before that @ for userinfo
    if beginning and _HOST_AND_PORT.fullmatch(host) and not cut_early:
        return f"{shown[:start]}{host}{slash}{path}"
    return f"{shown[:start]}{_without_password(shown[start:], is_cut='@' in url[len(shown) :])}"


def _without_password(rest: str, *, is_cut: bool) -> str:
    before, at, after = rest.rpartition("@")
    if at and (":" in before or "\\" in before or not before.strip("/")):
        return after
    return rest.partition(":")[0] if is_cut else rest
