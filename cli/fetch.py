"""`mosaic fetch`: acquire URLs as a run does, by the confined fetcher, and print the records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.arguments import regular_file
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table, say
from contracts.errors import ChildFailed, InputError
from contracts.outcome import Outcome

if TYPE_CHECKING:
    from contracts.network_policy import NetworkPolicy
    from contracts.records import AcquisitionRecord
    from intake.fetch_queue import FetchQueue
    from settings.values import Settings

_SHOWN = ("url", "verdict", "rule", "size_bytes", "digest", "reason")


def fetch(
    urls: Annotated[list[str], typer.Argument(help="What to fetch.")],
    out: Annotated[Path, typer.Option(help="A folder for the bytes, each file named by its sha256; made if missing.")],
    policy: Annotated[str | None, typer.Option(help="Named policy; the deployment's by default.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="Cap of each; the largest medium's by default.")] = None,
    ca: Annotated[Path | None, typer.Option(help="PEM certificates to trust beside the public ones.")] = None,
    as_json: Json = False,
) -> None:
    """Acquire URLs under a network policy, in the confined fetcher. Exit 1 if any was refused or not had."""
    from settings.load import load

    settings = load()
    limits = settings.limits
    largest = max(limits.image_bytes, limits.audio_bytes, limits.video_bytes)
    cap = largest if max_bytes is None else max_bytes
    if cap > largest:
        raise InputError("max-bytes", f"expected at most {largest}, the limit of the largest medium, got {cap}")
    anchors = None if ca is None else regular_file(ca).read_text("ascii", "replace")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("out-folder", f"expected a folder that can be written, got {str(out)!r}") from error
    try:
        rows = asyncio.run(_all(settings, urls, settings.network_policy(policy), cap, out, anchors, as_json))
    except ExceptionGroup as group:  # of the tasks; the first to fail ended the others
        raise group.exceptions[0] from group
    if not as_json:
        print_table("acquisitions", _SHOWN, ([row[name] or "" for name in _SHOWN] for row in rows))
    if any(row["verdict"] != "acquired" for row in rows):
        raise typer.Exit(SOME_FAILED)


async def _all(
    settings: Settings,
    urls: list[str],
    policy: NetworkPolicy,
    max_bytes: int,
    out: Path,
    anchors: str | None,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Fetch side by side, and print in the order given."""
    from intake.fetch_queue import FetchPace, FetchQueue
    from intake.fetcher import Fetcher

    rows = list[dict[str, Any]]()
    pace = FetchPace(settings.fetch_concurrency, settings.fetch_per_host, settings.fetch_tries)
    say(f"mosaic: fetching {len(urls)} under the policy {policy.name}")
    async with (
        Fetcher(settings.limits, extra_anchors=anchors, unsafe=settings.unsafe_isolation) as fetcher,
        asyncio.TaskGroup() as tasks,
    ):
        queue = FetchQueue(fetcher, pace, settings.limits)
        open_files = asyncio.Semaphore(2 * settings.fetch_concurrency)
        fetches = [
            tasks.create_task(_one(queue, open_files, url, settings.tenant, policy, max_bytes, out)) for url in urls
        ]
        for done, each in enumerate(fetches, 1):
            row = await each
            rows.append(row)
            if as_json:
                print_json(row)
            elif len(urls) > 1:
                say(f"{done}/{len(urls)}: {row['verdict']} {row['url']}")
    return rows


async def _one(
    queue: FetchQueue,
    open_files: asyncio.Semaphore,
    url: str,
    tenant: str,
    policy: NetworkPolicy,
    max_bytes: int,
    out: Path,
) -> dict[str, Any]:
    from contracts.locator import redact_url
    from storage.incoming import incoming

    async with open_files:
        with incoming(out) as file:
            try:
                record = await queue.fetch(url, tenant=tenant, policy=policy, max_bytes=max_bytes, into=file.fd)
            except ChildFailed as error:
                return {"url": redact_url(url), "verdict": "failed", "rule": error.rule, "reason": error.reason,
                        "file": None, "size_bytes": None, "digest": None}  # fmt: skip
            path = None
            if record.digest is not None:
                path = out / record.digest.hex
                await asyncio.to_thread(file.publish, path)
            return _row(record, path)


def _row(record: AcquisitionRecord, path: Path | None) -> dict[str, Any]:
    failure = record.failure
    verdict = "acquired"
    if failure is not None:
        verdict = "refused" if failure.to_error().outcome is Outcome.REFUSED else "failed"
    return {
        "url": record.requested,
        "verdict": verdict,
        "rule": failure and failure.rule,
        "reason": failure and failure.reason,
        "file": path and str(path),
        **record.to_json(),
    }
