"""Receipts of derivatives: every recipe's transformation verifies, and a change of it is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.artifact import Artifact
from contracts.derivation_spec import parse_derivation
from contracts.digest import Digest
from contracts.limits import Limits
from contracts.locator import Derived, locator_digest
from contracts.question import MediaPart, Question, TextPart
from contracts.receipt import Receipt
from intake.decoders import DecoderPool
from storage.disk_blobs import DiskBlobStore
from tests import media_samples as samples
from tests.receipt_samples import ORIGINAL, changed, receipt
from tests.storage.verifying import rules, verify

FILES = {
    "image:max_side=40,format=jpeg": samples.encode(samples.picture(), "PNG"),
    "audio:rate=8000": samples.sound("flac"),
    "video:times=0.2;0.6": samples.mp4(),
    "video:scenes": samples.mp4(frames=20),
}


async def derived(blobs: DiskBlobStore, spec: str) -> Receipt:
    """The receipt of a question about a real derivative."""
    recipe, source = parse_derivation(spec), os.memfd_create("medium")
    try:
        os.write(source, FILES[spec])
        async with DecoderPool(limits=Limits(), workers=1) as pool:
            made = (await pool.inspect(source, modality=recipe.modality, derive=recipe)).derivative
    finally:
        os.close(source)
    assert made is not None
    digest, size_bytes = blobs.put(made.data)
    artifact = Artifact(digest, size_bytes, made.media_type, recipe.modality)
    part = MediaPart(artifact, Derived(Digest.of(ORIGINAL), made.transformation))
    return receipt(blobs, asked=Question((part, TextPart("What is it?")), max_output_tokens=64))


@pytest.mark.parametrize("spec", FILES)
async def test_a_derivative_of_any_recipe_verifies(tmp_path: Path, spec: str) -> None:
    """Its locator, the question that names its transformation, its bytes and its original are all recomputed."""
    blobs = DiskBlobStore(tmp_path)
    document = await derived(blobs, spec)
    assert rules(verify(document, blobs)) == set()
    part = document.parts[0]
    assert part.locator is not None
    said: dict[str, Any] = part.locator["transformation"] | {"name": "another"}
    locator = Derived(Digest.of(ORIGINAL), said)
    other = msgspec.structs.replace(part, locator=locator.to_json(), locator_digest=str(locator_digest(locator)))
    assert "question-parts" in rules(verify(changed(document, parts=(other, *document.parts[1:])), blobs))
