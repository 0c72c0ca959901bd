"""The buckets of a deployment: what is not listed is not allowed."""

from __future__ import annotations

import pytest

from contracts.bucket_allowlist import allowing_entry, entry_reason
from contracts.locator import S3Source

ENTRIES = ("whole-bucket", "shared/case-7", "shared/case-8/open")


@pytest.mark.parametrize(
    ("bucket", "key", "entry"),
    [
        ("whole-bucket", "any/key.png", "whole-bucket"),
        ("shared", "case-7/a.png", "shared/case-7"),
        ("shared", "case-7", "shared/case-7"),
        ("shared", "case-8/open/deep/a.png", "shared/case-8/open"),
        ("shared", "case-70/a.png", None),
        ("shared", "case-8/closed/a.png", None),
        ("shared", "a/case-7/b.png", None),
        ("whole-bucket-2", "any/key.png", None),
        ("whole", "bucket/any.png", None),
        ("other", "whole-bucket/a.png", None),
    ],
)
def test_an_object_is_allowed_by_the_entry_that_holds_it(bucket: str, key: str, entry: str | None) -> None:
    """By bucket and whole steps of the key, never by a part of a name."""
    assert allowing_entry(S3Source(bucket, key), ENTRIES) == entry


def test_an_empty_list_allows_nothing() -> None:
    """As a deployment that says nothing has it."""
    assert allowing_entry(S3Source("bucket", "key"), ()) is None


@pytest.mark.parametrize(
    "entry", ["", "*", "Bucket", "bucket/", "bucket//a", "bucket/../a", "s3://bucket", "b/a", "bucket/*?"]
)
def test_an_entry_that_is_none_is_refused(entry: str) -> None:
    """Where it is written, so that no deployment believes a pattern to be in force."""
    assert entry_reason(entry) is not None
    assert entry_reason("bucket") is entry_reason("bucket/a b/c") is None
