"""Bundles from where they stand: a file with its folder, an object of a real store, a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import InputError
from contracts.limits import Limits
from pipeline.loading import load_bundle, load_object, load_text
from settings.secret import Secret
from settings.values import Settings
from tests.services.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

TEXT = """\
version: 1
id: b
questions:
  - {id: q, parts: [{image: "s3://evidence/a.png"}, {text: What is it?}]}
"""
PATHS = TEXT.replace("s3://evidence/a.png", "a.png")


@pytest.fixture(scope="module")
def settings(seaweed: Seaweed, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Of a deployment that reads bundles beneath `bundles/cases`."""
    seaweed.bucket("bundles")
    seaweed.put("bundles", "cases/7.yaml", TEXT.encode())
    seaweed.put("bundles", "cases/8.yaml", PATHS.encode())
    seaweed.put("bundles", "cases/9.yaml", b"version: 1\nid: [\n")
    return Settings(
        home=tmp_path_factory.mktemp("home"),
        s3_endpoint_url=seaweed.url,
        s3_access_key_id=Secret(ACCESS_KEY),
        s3_secret_access_key=Secret(SECRET_KEY),
        s3_source_buckets=("bundles/cases",),
    )


async def test_a_bundle_is_the_same_wherever_it_stands(settings: Settings, tmp_path: Path) -> None:
    """The same bytes have the same digest; only a file has a folder."""
    path = tmp_path / "7.yaml"
    path.write_text(TEXT)
    file, text = load_bundle(path, settings), load_text(TEXT, settings)
    stored = await load_object("s3://bundles/cases/7.yaml", settings)
    assert file.digest == text.digest == stored.digest
    assert file.bundle == text.bundle == stored.bundle
    assert (file.folder, text.folder, stored.folder) == (tmp_path, None, None)


@pytest.mark.parametrize(
    ("location", "rule", "reason"),
    [
        ("s3://bundles/cases/8.yaml", "bundle-no-folder", "question q: 'a.png' is a path"),
        ("s3://bundles/cases/9.yaml", "bundle-syntax", "s3://bundles/cases/9.yaml:"),
        ("s3://bundles/cases/0.yaml", "bundle-object", "s3-object-missing"),
        ("s3://bundles/7.yaml", "bundle-object", "s3-bucket-not-allowed"),
        ("s3://b/7.yaml", "bundle-object", "bucket"),
    ],
)
async def test_an_object_that_is_no_bundle_is_refused(
    settings: Settings, location: str, rule: str, reason: str
) -> None:
    """By its rule, with the object and the line where there is one, or with the store's reason."""
    with pytest.raises(InputError) as refused:
        await load_object(location, settings)
    assert refused.value.rule == rule
    assert reason in refused.value.reason


async def test_an_object_is_bounded_as_a_file_is(settings: Settings) -> None:
    """No more of it is read than a bundle may have."""
    narrow = replace(settings, limits=replace(Limits(), bundle_bytes=len(TEXT) - 1))
    with pytest.raises(InputError, match="s3-over-limit"):
        await load_object("s3://bundles/cases/7.yaml", narrow)
