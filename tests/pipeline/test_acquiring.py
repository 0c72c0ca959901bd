"""Media into the store: bounded together, decoded once, by the same record every time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.artifact import Modality
from contracts.bundle import MediaSource
from contracts.digest import Digest
from contracts.errors import FetchError, IntegrityError, MediaRejected, PolicyDenied
from contracts.limits import Limits
from contracts.locator import Derived, FileSource, UrlSource
from contracts.records import AcquisitionRecord
from pipeline.acquiring import AcquiredPart, Acquirer
from pipeline.media_budget import DecodedBudget, MediaBudget
from pipeline.workshop import Workshop, open_workshop
from tests.blob_files import blob_file
from tests.media_samples import encode, mp4, picture, sound
from tests.pipeline.desk import PNG, served, settings_of
from tests.simulators.origin import answer, origin
from tests.simulators.worker import ScriptedWorker


class _Bench:
    """A workshop with a folder of files, and how often its one decoder has been asked."""

    def __init__(self, shop: Workshop, folder: Path) -> None:
        self.shop = shop
        self.records: list[AcquisitionRecord] = []
        self._folder = folder

    def _noted(self, record: AcquisitionRecord, _: int) -> None:
        self.records.append(record)

    def put(self, name: str, data: bytes) -> None:
        (self._folder / name).write_bytes(data)

    @property
    def _quarantine(self) -> Path:
        return self.shop.storage.quarantine / "tests"

    def acquirer(self) -> Acquirer:
        self._quarantine.mkdir(parents=True, exist_ok=True)
        return Acquirer(self.shop, folder=self._folder, quarantine=self._quarantine)

    async def acquire(
        self, source: MediaSource, budget: MediaBudget | None = None, acquirer: Acquirer | None = None
    ) -> AcquiredPart:
        acquirer, budget = acquirer or self.acquirer(), budget or MediaBudget(self.shop.limits)
        part = await acquirer.acquire(source, name="attempt/0", budget=budget, noted=self._noted)
        assert list(self._quarantine.iterdir()) == []
        return part


async def _no_decoder(bench: _Bench) -> None:
    """From now on nothing can be decoded: what is still accepted was known."""
    await bench.shop.decoders.close()


async def test_second_sight(tmp_path: Path) -> None:
    """The same bytes under another name are known: no decoder is asked again, and both parts name one artifact."""
    film = mp4()
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as shop:
            bench = _Bench(shop, tmp_path)
            bench.put("one.png", PNG)
            bench.put("two.png", PNG)
            bench.put("clip.mp4", film)
            first = await bench.acquire(MediaSource(Modality.IMAGE, "one.png"))
            clip = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
            await _no_decoder(bench)
            second = await bench.acquire(MediaSource(Modality.IMAGE, "two.png"))
            again = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
    assert second.part.artifact == first.part.artifact
    assert (first.part.locator, second.part.locator) == (FileSource("one.png"), FileSource("two.png"))
    assert again.part == clip.part
    assert isinstance(clip.part.locator, Derived)
    assert clip.part.artifact.media_type == "image/gif"
    assert clip.original == Digest.of(film)


async def test_what_is_lost_is_made_again(tmp_path: Path) -> None:
    """When the store has lost what an inspection found, the bytes are decoded and stored again."""
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as shop:
            bench = _Bench(shop, tmp_path)
            bench.put("clip.mp4", mp4())
            clip = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
            made = blob_file(shop.storage.blobs, clip.part.artifact.digest)
            made.unlink()
            again = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
            assert again.part == clip.part
            assert made.exists()


@pytest.mark.parametrize("damaged", ["the original", "the derivative"])
async def test_what_is_damaged_heals(tmp_path: Path, damaged: str) -> None:
    """Bytes that are acquired again replace a damaged original, and a damaged derivative is made again."""
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as shop:
            bench = _Bench(shop, tmp_path)
            bench.put("clip.mp4", mp4())
            first = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
            digest = first.original if damaged == "the original" else first.part.artifact.digest
            path = blob_file(shop.storage.blobs, digest)
            path.chmod(0o600)
            path.write_bytes(b"rot")
            again = await bench.acquire(MediaSource(Modality.VIDEO, "clip.mp4"))
            assert again.part == first.part
            with shop.storage.blobs.open(digest) as whole:
                assert Digest.of(whole.read_all()) == digest


async def test_other_modality_is_decoded(tmp_path: Path) -> None:
    """What was accepted as one modality is not thereby accepted as another."""
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, settings.limits) as shop:
            bench = _Bench(shop, tmp_path)
            bench.put("one.png", PNG)
            await bench.acquire(MediaSource(Modality.IMAGE, "one.png"))
            with pytest.raises(MediaRejected):
                await bench.acquire(MediaSource(Modality.AUDIO, "one.png"))


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept aside"])
async def test_sha256(tmp_path: Path, keep: bool) -> None:
    """Bytes that are not those the bundle names, from any source, are refused; the record has both digests, and the
    store has the bytes only where the policy says so, which the record says then."""
    expected, actual = Digest.of(b"something else"), Digest.of(PNG)
    async with origin({"/one.png": answer("200 OK", body=PNG)}) as web, ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url, port=web.port)
        async with open_workshop(settings, settings.limits) as opened:
            shop = replace(opened, policy=replace(opened.policy, keep_mismatched=keep))
            bench = _Bench(shop, tmp_path)
            bench.put("one.png", PNG)
            for location in ("one.png", web.url("/one.png")):
                with pytest.raises(IntegrityError) as raised:
                    await bench.acquire(MediaSource(Modality.IMAGE, location, sha256=expected))
                assert raised.value.rule == "sha256-mismatch"
                assert str(expected) in raised.value.reason
                assert str(actual) in raised.value.reason
            assert shop.storage.blobs.exists(actual) is keep
            await bench.acquire(MediaSource(Modality.IMAGE, "one.png", sha256=actual))
    *mismatched, had = bench.records
    for record in mismatched:
        assert (record.digest, record.expected_digest, record.size_bytes) == (actual, expected, len(PNG))
        assert record.origin.get("kept") == (str(actual) if keep else None)
        assert record.failure is not None
    assert (had.expected_digest, had.failure) == (actual, None)


async def test_fetched(tmp_path: Path) -> None:
    """A URL's bytes come through the fetcher under the policy in force; what the origin refuses or the policy denies
    is an error by its rule; each leaves a record."""
    audio = sound("flac")
    scripts = {"/a.flac": answer("200 OK", body=audio), "/gone": answer("404 Not Found")}
    async with origin(scripts) as web, ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url, port=web.port)
        async with open_workshop(settings, settings.limits) as shop:
            bench = _Bench(shop, tmp_path)
            part = await bench.acquire(MediaSource(Modality.AUDIO, web.url("/a.flac")))
            with pytest.raises(FetchError, match="404"):
                await bench.acquire(MediaSource(Modality.AUDIO, web.url("/gone")))
            with pytest.raises(PolicyDenied):
                await bench.acquire(MediaSource(Modality.AUDIO, f"{worker.url}/x"))
            with pytest.raises(FetchError, match="no such file"):
                await bench.acquire(MediaSource(Modality.AUDIO, "absent.flac"))
    ends = [(record.source, record.failure and record.failure.rule) for record in bench.records]
    assert ends == [("url", None), ("url", "http-status"), ("url", "port"), ("file", "file-missing")]
    assert part.part.artifact.digest == Digest.of(audio)
    assert isinstance(part.part.locator, UrlSource)
    assert part.record.size_bytes == len(audio)
    assert len(web.requests) == 2


async def test_budget_bounds_the_next(tmp_path: Path) -> None:
    """The parts of a question share its bytes: what the first took the second cannot have, while it arrives."""
    big = encode(picture((640, 480)), "PNG", compress_level=0)
    limits = Limits().changed({"question_bytes": len(big) + 100})
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url, limits=limits)
        async with open_workshop(settings, limits) as shop:
            bench, budget = _Bench(shop, tmp_path), MediaBudget(limits)
            bench.put("big.png", big)
            bench.put("small.png", PNG)
            await bench.acquire(MediaSource(Modality.IMAGE, "big.png"), budget)
            with pytest.raises(FetchError, match="expected at most 100 bytes"):
                await bench.acquire(MediaSource(Modality.IMAGE, "small.png"), budget)


def test_budget() -> None:
    """An allowance is the smaller of the modality's bound and what the question has left; nothing left is an error."""
    limits = Limits().changed({"image_bytes": 50, "audio_bytes": 90, "question_bytes": 100})
    budget = MediaBudget(limits)
    assert (budget.allowance(Modality.IMAGE), budget.allowance(Modality.AUDIO)) == (50, 90)
    budget.spend(60, {})
    assert (budget.allowance(Modality.IMAGE), budget.allowance(Modality.AUDIO)) == (40, 40)
    budget.spend(40, {})
    with pytest.raises(MediaRejected, match="question-bytes"):
        budget.allowance(Modality.IMAGE)


DECODED = {
    "question-pixels": ("question_pixels", {"width": 10, "height": 5, "frames": 2}, 200),
    "question-samples": ("question_samples", {"samples": 50, "channels": 2}, 200),
    "bundle-pixels": ("bundle_pixels", {"width": 10, "height": 5, "frames": 2}, 200),
    "bundle-samples": ("bundle_samples", {"samples": 50, "channels": 2}, 200),
}


@pytest.mark.parametrize("rule", DECODED)
def test_decoded_work_is_bounded_over_all_parts(rule: str) -> None:
    """Two parts fit exactly, a third does not, and what is spent of one kind takes nothing off another."""
    name, findings, most = DECODED[rule]
    others = {other: 0 for other, _, _ in DECODED.values() if other != name}
    of = DecodedBudget.of_question if name.startswith("question") else DecodedBudget.of_bundle
    budget = of(Limits().changed(others | {name: most}))
    budget.spend(findings)
    budget.spend(findings)
    budget.check()
    with pytest.raises(MediaRejected) as refused:
        budget.spend(findings)
    assert refused.value.rule == rule
    assert "at most 200 decoded" in refused.value.reason


def test_a_lie_gives_nothing_back() -> None:
    """Counts below nothing, or that are none, spend nothing and free nothing."""
    budget = MediaBudget(Limits().changed({"question_pixels": 10, "question_samples": 10}))
    for lie in (-5, "many", None, 1.5):
        budget.spend(1, {"width": lie, "height": 100, "frames": 1, "samples": lie, "channels": 100})
    with pytest.raises(MediaRejected, match="question-pixels"):
        budget.spend(1, {"width": 11, "height": 1, "frames": 1})


async def test_decoding_for_a_bundle_is_bounded(tmp_path: Path) -> None:
    """What is over the bundle's bound is refused, and nothing is decoded after it; what is known costs nothing."""
    limits = Limits().changed({"bundle_pixels": 96 * 64 + 1})
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, limits) as shop:
            bench = _Bench(shop, tmp_path)
            for name, colour in {"one": (9, 9, 9), "two": (1, 2, 3), "three": (3, 2, 1)}.items():
                bench.put(f"{name}.png", encode(picture(colour=colour), "PNG"))
            acquirer = bench.acquirer()
            await bench.acquire(MediaSource(Modality.IMAGE, "one.png"), acquirer=acquirer)
            with pytest.raises(MediaRejected, match=r"bundle-pixels: .* with this part"):
                await bench.acquire(MediaSource(Modality.IMAGE, "two.png"), acquirer=acquirer)
            await bench.acquire(MediaSource(Modality.IMAGE, "one.png"), acquirer=acquirer)
            await _no_decoder(bench)
            with pytest.raises(MediaRejected, match="bundle-pixels"):
                await bench.acquire(MediaSource(Modality.IMAGE, "three.png"), acquirer=acquirer)


async def test_decoded_pixels_of_a_question_are_bounded(tmp_path: Path) -> None:
    """Two pictures are one too many where the limit is one's pixels: also where both are known and none is decoded."""
    limits = Limits().changed({"question_pixels": 96 * 64 + 1})
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with open_workshop(settings, limits) as shop:
            bench = _Bench(shop, tmp_path)
            bench.put("one.png", encode(picture(), "PNG"))
            bench.put("two.png", encode(picture(colour=(1, 2, 3)), "PNG"))
            for _ in range(2):
                budget = MediaBudget(limits)
                await bench.acquire(MediaSource(Modality.IMAGE, "one.png"), budget)
                with pytest.raises(MediaRejected, match="question-pixels"):
                    await bench.acquire(MediaSource(Modality.IMAGE, "two.png"), budget)
