"""The same bundle, with everything on this host's disk and with nothing of it there: blobs in a bucket, rows in
PostgreSQL. One code path, so one result."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.command import REPOSITORY, Mosaic
from tests.services.postgres import Postgres
from tests.services.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

pytestmark = pytest.mark.engine
BUNDLE = REPOSITORY / "examples" / "first" / "bundle.yaml"


def test_receipts_are_the_same_wherever_they_are_kept(tmp_path: Path, seaweed: Seaweed, postgres: Postgres) -> None:
    """The digests of artifacts, questions, requests and streams are equal; both stores verify, and the bucket's host
    keeps no blob, only what it staged, within the budget. Damage in the bucket is found."""
    seaweed.bucket("end-to-end")
    prefix = uuid.uuid4().hex
    remote = Mosaic(
        tmp_path / "remote",
        {
            "MOSAIC_BLOB_STORE": f"s3://end-to-end/{prefix}",
            "MOSAIC_S3_ENDPOINT_URL": seaweed.url,
            "MOSAIC_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "MOSAIC_S3_SECRET_ACCESS_KEY": SECRET_KEY,
            "MOSAIC_DATABASE_URL": postgres.url(postgres.database()),
            "MOSAIC_STAGING_LAYOUT": "flat",
            "MOSAIC_STAGING_CACHE_BYTES": "1000000",
        },
    )
    local = Mosaic(tmp_path / "local")
    here, there = (_answered(mosaic) for mosaic in (local, remote))
    assert here == there
    assert len(here) == 3
    assert not (remote.home / "blobs").exists()
    kept = [path for path in (remote.home / "staging").iterdir() if path.is_file()]
    assert sorted(f"sha256:{path.stem}" for path in kept) == sorted(_media(there))
    assert [path for path in (local.home / "staging").rglob("*") if path.is_file()] == []
    for mosaic in (local, remote):
        verified = mosaic("receipts", "verify", "--all")
        assert (verified.code, verified.out) == (0, "3 valid\n")
    listed = seaweed.client.list_objects_v2(Bucket="end-to-end", Prefix=f"{prefix}/sha256/")["Contents"]
    seaweed.put("end-to-end", listed[0]["Key"], b"rot")
    assert remote("receipts", "verify", "--all").code == 1


def _media(told: list[dict[str, Any]]) -> set[str]:
    return {artifact["digest"] for question in told for artifact in question["artifacts"] if artifact is not None}


def _answered(mosaic: Mosaic) -> list[dict[str, Any]]:
    """What must not depend on where things are kept, of each question."""
    ended = mosaic("run", BUNDLE, "--direct", "--json")
    assert ended.code == 0, ended.err
    told = []
    for question in ended.object["questions"]:
        receipt = json.loads(mosaic("receipts", "show", question["receipt"]).out)
        told.append(
            {name: question[name] for name in ("id", "outcome", "answer", "question_digest")}
            | {"artifacts": [part["artifact"] for part in receipt["parts"]]}
        )
    return told
