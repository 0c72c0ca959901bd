"""Which buckets, or prefixes of keys in them, a deployment lets bundles name. Nothing is allowed that is not listed."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.bundle_location import bucket_reason, key_reason
from contracts.locator import S3Source


def entry_reason(entry: str) -> str | None:
    """Why `entry` is neither `bucket` nor `bucket/prefix` (whole steps of keys, no slash at the end); None if it is."""
    bucket, slash, prefix = entry.partition("/")
    return bucket_reason(bucket) or (key_reason(prefix) if slash else None)


def allowing_entry(source: S3Source, entries: Iterable[str]) -> str | None:
    """The first of `entries` that allows `source`, or None.

    A prefix ends where a step ends: `bucket/case-7` allows `case-7/a.png`, not `case-70/a.png`.
    """
    return next((entry for entry in entries if _allows(entry, source)), None)


def _allows(entry: str, source: S3Source) -> bool:
    bucket, _, prefix = entry.partition("/")
    return bucket == source.bucket and (not prefix or source.key == prefix or source.key.startswith(f"{prefix}/"))
