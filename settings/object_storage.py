"""How the settings of object storage are read: where it is, what it is opened with, what bundles may name in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from contracts.bucket_allowlist import entry_reason
from settings.secret import Secret

_ENDPOINT = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KMS_KEY = re.compile(r"[A-Za-z0-9:/_.-]{1,2048}")
_SECRET = re.compile(r"[\x21-\x7e]{1,8192}")  # a session token is some 1,000 characters


def _endpoint(value: Any) -> str:
    if not isinstance(value, str) or not _ENDPOINT.fullmatch(value):
        raise ValueError("expected http(s)://host or http(s)://host:port and nothing after it")
    return value


def _region(value: Any) -> str:
    if not isinstance(value, str) or not _REGION.fullmatch(value):
        raise ValueError("expected a region's name: a-z, 0-9 and -")
    return value


def secret(value: Any) -> Secret:
    """A secret text. Raises ValueError, which does not show it."""
    if not isinstance(value, str) or not _SECRET.fullmatch(value):
        raise ValueError("expected printable ASCII without spaces (not shown: it is a secret)")
    return Secret(value)


def _buckets(value: Any) -> tuple[str, ...]:
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError("expected a list of bucket or bucket/prefix; in a variable, with commas between them")
    for entry in entries:
        if reason := entry_reason(entry):
            raise ValueError(reason)
    return tuple(entries)


def _store(value: Any) -> str:
    """`disk`, or `s3://bucket` with or without a prefix."""
    if value == "disk":
        return "disk"
    if not isinstance(value, str) or not value.startswith("s3://"):
        raise ValueError("expected disk or s3://bucket or s3://bucket/prefix")
    if reason := entry_reason(value.removeprefix("s3://")):
        raise ValueError(reason)
    return value


def one_of(*words: str) -> Callable[[Any], str]:
    """A reader of one of `words`."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return str(value)

    return read


def _kms_key(value: Any) -> str:
    if not isinstance(value, str) or not _KMS_KEY.fullmatch(value):
        raise ValueError("expected a key's id, alias or ARN")
    return value


_CHECKSUMS = one_of("when_supported", "when_required")
OBJECT_READERS: Mapping[str, Callable[[Any], Any]] = {
    "s3_endpoint_url": _endpoint,
    "s3_region": _region,
    "s3_access_key_id": secret,
    "s3_secret_access_key": secret,
    "s3_session_token": secret,
    "s3_source_buckets": _buckets,
    "s3_request_checksums": _CHECKSUMS,
    "s3_response_checksums": _CHECKSUMS,
    "blob_store": _store,
    "s3_store_encryption": one_of("AES256", "aws:kms"),
    "s3_store_kms_key": _kms_key,
    "s3_store_lock_mode": one_of("GOVERNANCE", "COMPLIANCE"),
}
