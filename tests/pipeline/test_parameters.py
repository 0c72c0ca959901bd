"""Parameters that the engine ignores, through a whole run: refused before anything is read, or recorded."""

from __future__ import annotations

from pathlib import Path

from contracts.outcome import Outcome
from tests.pipeline.desk import ask, opened, receipts, served, settings_of, write_bundle
from tests.simulators.worker import ScriptedWorker, answer


async def test_an_ignored_parameter_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    """The file is not even there: the question was refused for its seed."""
    path = write_bundle(tmp_path / "in", ask("q", {"image": "absent.png"}), parameters={"seed": 7})
    async with ScriptedWorker(served()) as worker:
        settings = settings_of(tmp_path / "home", worker_url=worker.url)
        async with opened(path, settings) as run:
            result = await run.answer(0)
    assert (result.outcome, result.rule) == (Outcome.REFUSED, "parameter-not-honoured")
    assert "seed" in (result.reason or "")


async def test_an_ignored_parameter_is_recorded_where_the_bundle_says_so(tmp_path: Path) -> None:
    """Asked without it; the receipt has it in the question and among what was not honoured, and verifies."""
    asked = ask("q", {"image": "circle.png"}, parameters={"seed": 7}, not_honoured="record")
    path = write_bundle(tmp_path / "in", asked)
    async with ScriptedWorker(served(answer("red"))) as worker:
        async with opened(path, settings_of(tmp_path / "home", worker_url=worker.url)) as run:
            result = await run.answer(0)
        assert b"seed" not in worker.received[-1].body
    (receipt,) = receipts(tmp_path / "home")
    assert result.outcome is Outcome.COMPLETE
    assert receipt.question is not None
    assert receipt.request is not None
    assert receipt.question["parameters"] == {"seed": 7}
    assert receipt.request.requested_not_honoured == ("seed",)
