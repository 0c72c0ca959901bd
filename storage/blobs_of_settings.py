"""Which store of blobs the settings name, and how files of it are staged."""

from __future__ import annotations

from contracts.ports import BlobBackend
from settings.values import Settings
from storage.disk_blobs import DiskBlobStore
from storage.incoming import FileAccess
from storage.s3_blobs import S3BlobStore, S3Store
from storage.s3_client import S3Access
from storage.staging import StagingForm

_CONNECT_S, _IDLE_S = 5.0, 60.0  # a store of one's own is near, and slow only where it is busy


def blobs_of(settings: Settings) -> BlobBackend:
    """The store of blobs that settings name; nothing is asked of it yet.

    Raises InputError (s3-store-options, s3-credentials-half) for settings that contradict each other.
    """
    if settings.blob_store == "disk":
        return DiskBlobStore(settings.home / "blobs", access=staging_form_of(settings).access)
    bucket, _, prefix = settings.blob_store.removeprefix("s3://").partition("/")
    store = S3Store(
        bucket=bucket,
        prefix=prefix,
        tenant=settings.tenant if settings.s3_store_per_tenant else None,
        encryption=settings.s3_store_encryption,
        kms_key=settings.s3_store_kms_key,
        lock_mode=settings.s3_store_lock_mode,
        lock_days=settings.s3_store_lock_days,
        unsafe=settings.unsafe_s3_store,
    )
    access = S3Access.of(settings, connect_s=_CONNECT_S, idle_s=_IDLE_S)
    return S3BlobStore(access, store, spool=settings.home / "quarantine")


def staging_form_of(settings: Settings) -> StagingForm:
    """How settings want files staged. Blobs on disk have the same access, so that they can be linked."""
    return StagingForm(
        access=FileAccess(int(settings.staging_mode, 8), settings.staging_group),
        flat=settings.staging_layout == "flat",
        cache_bytes=settings.staging_cache_bytes,
    )
