"""Where a bundle says that a medium is: one form for each kind of source, and no text that can be read as two.

`location_reason` judges, `source_of` reads what was judged. An http(s) URL is judged further by the network policy, an
object by the deployment's buckets, a path when it is opened.
"""

from __future__ import annotations

import re

from contracts.bundle_reader import shown
from contracts.digest import Digest
from contracts.locator import BlobSource, FileSource, S3Source, Source, UrlSource, redact_url

MAX_KEY_BYTES = 1_024  # UTF-8; Amazon S3, "Naming Amazon S3 objects"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_URL = re.compile(r"https?://[^/?#\s]+\S*", flags=re.IGNORECASE)
_BLOB = re.compile(r"sha256:([0-9a-f]{64})")
_OBJECT = re.compile(r"s3://(?P<bucket>[^/]*)/(?P<key>[^?]*)(?:\?versionId=(?P<version>[A-Za-z0-9._-]{1,1024}))?")
_BUCKET = re.compile(r"(?!.*\.\.)(?![0-9.]+\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KEY_REFUSED = re.compile(r"[%?#\\\x00-\x1f\x7f]")


def location_reason(location: str) -> str | None:
    """Why `location` is not one of the four forms of a source; None if it is one.

    An http(s) URL; `s3://bucket/key`, perhaps with `?versionId=…`; `sha256:` and 64 hex digits; else a path: relative,
    forward slashes, no empty, `.` or `..` step. Whether a link leads out of the folder can only be seen when the file
    is opened, and is checked there.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return _path_reason(location)
    name = scheme[1]
    if name.lower() in ("http", "https"):
        return None if _URL.fullmatch(location) else f"{shown(redact_url(location))} is not a URL with a host"
    if name == "s3":
        return _object_reason(location)
    if name == "sha256":
        return None if _BLOB.fullmatch(location) else "expected sha256: and 64 lowercase hex digits"
    return f"the scheme {shown(name)} is not read, only http, https, s3 and sha256; a local file is named by its path"


def source_of(location: str) -> Source:
    """The locator of the original that `location` names, which `location_reason` found nothing wrong with."""
    if blob := _BLOB.fullmatch(location):
        return BlobSource(Digest(blob[1]))
    if found := _OBJECT.fullmatch(location):
        return S3Source(found["bucket"], found["key"], found["version"])
    return UrlSource.of(location) if _SCHEME.match(location) else FileSource(location)


def bucket_reason(bucket: str) -> str | None:
    """Why no bucket is called `bucket` (Amazon S3, "General purpose bucket naming rules"); None if one may be."""
    if _BUCKET.fullmatch(bucket):
        return None
    named = bucket.rpartition("@")[2]  # before an @ there may be a password
    return f"{shown(named)} is not a bucket's name: 3 to 63 of a-z, 0-9, - and ., and no address"


def key_reason(key: str) -> str | None:
    """Why `key` is not taken as an object's key; None if it is.

    A key is taken as it stands, never decoded: what another reader would decode (`%`, `?`, `#`, a backslash), and what
    stores that keep objects as files walk (empty, `.` and `..` steps), is refused.
    """
    if refused := _KEY_REFUSED.search(key):
        return f"a key is read as it stands, so it has no {shown(refused[0])} in it"
    if any(step in ("", ".", "..") for step in key.split("/")):
        return f"the key {shown(key)} has an empty, '.' or '..' step"
    size = len(key.encode())
    return f"expected a key of at most {MAX_KEY_BYTES} bytes, got {size}" if size > MAX_KEY_BYTES else None


def _object_reason(location: str) -> str | None:
    found = _OBJECT.fullmatch(location)
    if found is None:
        form = "s3://bucket/key or s3://bucket/key?versionId=VERSION"
        return f"expected {form}; {shown(redact_url(location))} (shown without what follows) is neither"
    return bucket_reason(found["bucket"]) or key_reason(found["key"])


def _path_reason(location: str) -> str | None:
    if "\\" in location:
        return "a path has forward slashes, got a backslash"
    if location.startswith("/"):
        return "a path is relative to the bundle's folder, got an absolute one"
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in location):
        return "a path has no control characters"
    steps = location.split("/")
    if ".." in steps:
        return f"{shown(location)} leaves the bundle's folder or walks back in it; '..' is not read"
    if "." in steps or "" in steps:
        plain = "/".join(step for step in steps if step not in ("", "."))
        return f"{shown(location)} has an empty or '.' step; expected {shown(plain)}"
    return None
