"""What a release says it needs of media is made while they are acquired, and named by where it came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.artifact import Modality
from contracts.bundle import MediaSource
from contracts.derivation_document import Derivatives
from contracts.digest import Digest
from contracts.errors import MediaRejected
from contracts.locator import Derived
from pipeline.acquiring import AcquiredPart, Acquirer
from pipeline.media_budget import MediaBudget
from pipeline.workshop import Workshop, open_workshop
from tests import coded_samples
from tests import media_samples as samples
from tests.contracts.releases import DERIVATIVES
from tests.pipeline.desk import served, settings_of
from tests.simulators.worker import ScriptedWorker

FILES = {
    Modality.IMAGE: ("a.heic", coded_samples.heic(samples.picture())),
    Modality.AUDIO: ("a.m4a", coded_samples.sound_by_ffmpeg(samples.tone(0.5, 44_100), 44_100)),
    Modality.VIDEO: ("a.mp4", samples.mp4()),
}
"""None of them is read by an engine itself."""


def needing(shop: Workshop, derivatives: dict[str, Any] | None) -> Workshop:
    """The same workshop, for a release that says so of its media."""
    said = msgspec.UNSET if derivatives is None else msgspec.convert(derivatives, Derivatives)
    return replace(shop, release=msgspec.structs.replace(shop.release, derivatives=said))


def _unseen(*_: object) -> None:
    """Nobody keeps these records."""


async def acquired(shop: Workshop, folder: Path, modality: Modality) -> AcquiredPart:
    name, data = FILES[modality]
    (folder / name).write_bytes(data)
    quarantine = shop.storage.quarantine / "tests"
    quarantine.mkdir(parents=True, exist_ok=True)
    acquirer = Acquirer(shop, folder=folder, quarantine=quarantine)
    budget = MediaBudget(shop.limits)
    return await acquirer.acquire(MediaSource(modality, name), name="attempt/0", budget=budget, noted=_unseen)


async def test_a_release_has_its_media_as_it_needs_them(tmp_path: Path) -> None:
    """HEIC, M4A and MP4 become WebP, WAV and GIF; both are in the store, and a locator binds them."""
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as opened:
            shop = needing(opened, DERIVATIVES)
            wanted = {Modality.IMAGE: "image/webp", Modality.AUDIO: "audio/wav", Modality.VIDEO: "image/gif"}
            for modality, media_type in wanted.items():
                got = await acquired(shop, tmp_path, modality)
                locator, recipe = got.part.locator, shop.derivation(modality)
                assert isinstance(locator, Derived)
                assert recipe is not None
                assert locator.parent == got.original == Digest.of(FILES[modality][1])
                assert recipe.fixed().items() <= locator.transformation.items()
                assert got.part.artifact.media_type == media_type
                for digest in (got.original, got.part.artifact.digest):
                    with shop.storage.blobs.open(digest, None) as reader:
                        assert Digest.of(b"".join(reader)) == digest
            other = needing(opened, DERIVATIVES | {"image": DERIVATIVES["image"] | {"max_side_px": 32}})
            assert (await acquired(other, tmp_path, Modality.IMAGE)).part != (
                await acquired(shop, tmp_path, Modality.IMAGE)
            ).part


async def test_what_a_release_does_not_ask_for_is_not_made(tmp_path: Path) -> None:
    """Where the manifest says nothing or null, what no engine reads is refused and not quietly converted."""
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as opened:
            assert isinstance((await acquired(opened, tmp_path, Modality.VIDEO)).part.locator, Derived)
            for shop, modality in (
                (opened, Modality.IMAGE),
                (opened, Modality.AUDIO),
                (needing(opened, dict.fromkeys(DERIVATIVES)), Modality.VIDEO),
            ):
                with pytest.raises(MediaRejected, match="engine-unreadable"):
                    await acquired(shop, tmp_path, modality)
