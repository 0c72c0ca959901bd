"""A bundle from where it stands: a file of this host, an object in S3, or its own text.

A file's media may be beneath its folder. An object and a text have no folder, so what they name is on the web, in S3
or in the store.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from contracts.bundle import Bundle, apply_assertions, parse_bundle
from contracts.bundle_location import location_reason, source_of
from contracts.digest import Digest
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.locator import FileSource, S3Source
from settings.values import Settings
from storage.s3_client import S3Access
from storage.s3_sources import S3Sources

_OBJECT = "s3://"
_PASTED = "bundle"  # what messages call it


@dataclass(frozen=True, slots=True)
class LoadedBundle:
    """A bundle that was read. `folder` is what its paths are relative to, None where it has none; `digest` that of its
    bytes; `limits` are the deployment's, narrowed as the bundle asks."""

    bundle: Bundle
    folder: Path | None
    digest: Digest
    limits: Limits


def is_object(location: str) -> bool:
    """Whether a bundle's location is one in S3, and not a path."""
    return location.startswith(_OBJECT)


def load_bundle(path: Path, settings: Settings) -> LoadedBundle:
    """Read and parse a file under `settings`. Raises InputError with the file, the line and what was expected."""
    try:
        with path.open("rb") as file:
            data = file.read(settings.limits.bundle_bytes + 1)
    except OSError as error:
        raise InputError("bundle-file", f"cannot read {path}: {error.strerror}") from error
    return _loaded(data, str(path), path.resolve().parent, settings)


async def load_object(location: str, settings: Settings) -> LoadedBundle:
    """Read and parse `s3://bucket/key` of a bucket that `s3_source_buckets` has.

    Raises InputError where it is no bundle or cannot be had, with the store's reason.
    """
    reason = location_reason(location)
    source = source_of(location) if reason is None else None
    if not isinstance(source, S3Source):
        raise InputError("bundle-object", reason or "expected s3://bucket/key")
    limits = settings.limits
    access = S3Access.of(settings, connect_s=limits.fetch_connect_s, idle_s=limits.fetch_idle_s)
    objects = S3Sources(access, settings.s3_source_buckets, limits)
    try:
        with tempfile.TemporaryFile() as file:
            record = await objects.acquire(source, max_bytes=limits.bundle_bytes, into=file.fileno())
            if record.failure is not None:
                raise InputError("bundle-object", f"{record.failure.reason} ({record.failure.rule})")
            data = file.read()
    finally:
        objects.close()
    return _loaded(data, source.url, None, settings)


def load_text(text: str, settings: Settings) -> LoadedBundle:
    """Parse a bundle's own text, YAML or JSON. Raises InputError with the line and what was expected."""
    return _loaded(text.encode(), _PASTED, None, settings)


def _loaded(data: bytes, name: str, folder: Path | None, settings: Settings) -> LoadedBundle:
    bundle = parse_bundle(data, name=name, limits=settings.limits)
    if folder is None:
        _check_no_paths(bundle, name)
    policy = settings.network_policy()
    limits = apply_assertions(bundle, tenant=settings.tenant, policy_name=policy.name, limits=settings.limits)
    return LoadedBundle(bundle, folder, Digest.of(data), limits)


def _check_no_paths(bundle: Bundle, name: str) -> None:
    for question in bundle.questions:
        for medium in question.media:
            if isinstance(medium.source, FileSource):
                reason = f"question {question.id}: {medium.location!r} is a path, and this bundle is in no folder"
                raise InputError("bundle-no-folder", f"{name}: {reason}; use a URL, s3:// or sha256:")
