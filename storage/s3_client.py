"""The client of the deployment's object storage: one per process, made at its first use.

boto3 is imported with it, so that a program that never reads an object does not pay for the import. Where requests and
credentials go is decided by the settings alone: no proxy and no endpoint is taken from the environment.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from contracts.errors import InputError, StorageRefused
from settings.secret import Secret
from settings.values import Settings

TRIES = 4  # of a request, by botocore's standard mode: connection errors, 5xx and throttling, with jitter
CONNECTIONS = 16  # kept open; as many requests as run at a time


@dataclass(frozen=True, slots=True)
class S3Access:
    """Where object storage is and what opens it.

    `endpoint_url` None is Amazon's of the region. Without keys of ours, boto3 looks where AWS's own tools look.
    `connect_s` and `idle_s` bound a connect and the gap between two reads, in seconds; the two modes of checksums are
    botocore's, whether or not a request needs one.
    """

    endpoint_url: str | None
    region: str
    access_key_id: Secret | None
    secret_access_key: Secret | None
    session_token: Secret | None
    connect_s: float
    idle_s: float
    request_checksums: str = "when_supported"
    response_checksums: str = "when_required"

    @classmethod
    def of(cls, settings: Settings, *, connect_s: float, idle_s: float) -> S3Access:
        """The deployment's object storage. Raises InputError as below."""
        return cls(
            endpoint_url=settings.s3_endpoint_url,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=settings.s3_secret_access_key,
            session_token=settings.s3_session_token,
            connect_s=connect_s,
            idle_s=idle_s,
            request_checksums=settings.s3_request_checksums,
            response_checksums=settings.s3_response_checksums,
        )

    def __post_init__(self) -> None:
        """Raise InputError (s3-credentials-half) for a key without its other half."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise InputError("s3-credentials-half", "s3_access_key_id and s3_secret_access_key go together")
        if self.session_token is not None and self.access_key_id is None:
            raise InputError("s3-credentials-half", "s3_session_token needs s3_access_key_id and s3_secret_access_key")


class S3Client:
    """Gives boto3's low-level client, which threads share; a forked process makes its own."""

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None

    def get(self) -> Any:
        """The client of this process. Raises what boto3 raises for settings that it refuses."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), _make(self._access))
            return self._made[1]

    def with_wrong_secret(self) -> S3Client:
        """A client of the same key that the store must keep out."""
        own = self.get()._request_signer._credentials  # boto3 has no other way to what it found by itself
        if own is None:
            raise StorageRefused("s3-credentials", "there are no storage credentials")
        frozen = own.get_frozen_credentials()
        token = None if frozen.token is None else Secret(frozen.token)
        wrong = Secret("wrong" + "0" * 35)
        return S3Client(
            replace(self._access, access_key_id=Secret(frozen.access_key), secret_access_key=wrong, session_token=token)
        )

    def close(self) -> None:
        """Close this process's connections."""
        with self._lock:
            if self._made is not None and self._made[0] == os.getpid():
                self._made[1].close()
            self._made = None


def _make(access: S3Access) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    for name in ("botocore.auth", "botocore.endpoint", "botocore.hooks", "botocore.parsers"):
        logging.getLogger(name).setLevel(logging.INFO)  # at DEBUG they write signatures and session tokens
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "auto" if access.endpoint_url is None else "path"},
        retries={"mode": "standard", "total_max_attempts": TRIES},
        connect_timeout=access.connect_s,
        read_timeout=access.idle_s,
        max_pool_connections=CONNECTIONS,
        proxies={},
        request_checksum_calculation=access.request_checksums,
        response_checksum_validation=access.response_checksums,
        ignore_configured_endpoint_urls=True,
    )
    return Session().client(
        "s3",
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=_revealed(access.access_key_id),
        aws_secret_access_key=_revealed(access.secret_access_key),
        aws_session_token=_revealed(access.session_token),
        config=config,
    )


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
