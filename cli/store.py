"""`mosaic store`: what the store holds, whether it is whole, and what may go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import store_hold
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table, say
from cli.store_progress import read_progress
from contracts.printable import printable

if TYPE_CHECKING:
    from storage.home import Storage

app = typer.Typer(help="The store: what it holds, whether it is whole, what may go.", no_args_is_help=True)
app.add_typer(store_hold.app, name="hold")


@app.command("stats")
def stats(as_json: Json = False) -> None:
    """Count blobs and bytes by tenant and kind, and what is shared, set aside, condemned and staged."""
    from storage.stats import stats as count

    with _opened(as_json) as storage:
        counted = count(storage).to_json()
    if as_json:
        print_json({**counted, "findings": []})
        return
    shares = [(each["tenant"], each["kind"], each["count"], _size(each["size_bytes"])) for each in counted["shares"]]
    print_table("by tenant", ("tenant", "kind", "blobs", "size"), shares)
    amounts = ((name, each) for name, each in counted.items() if isinstance(each, dict) and "size_bytes" in each)
    print_table("store", ("what", "blobs", "size"), ((name, e["count"], _size(e["size_bytes"])) for name, e in amounts))
    receipts = sum(counted["receipts"].values())
    typer.echo(f"{receipts} receipts, {counted['leases']} leases; a byte is named {counted['sharing']:g} times")


@app.command("scrub")
def scrub(
    sample: Annotated[float, typer.Option(min=0.0, max=1.0, help="Read this share of the blobs.")] = 1,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="Read no more than this.")] = None,
    as_json: Json = False,
) -> None:
    """Hash what the store holds, set damage aside and name the receipts that refer to it; then look whether leases,
    files, rows and blobs agree. Exit 1 if something does not hold."""
    import random

    from storage.invariants import LEFT_BEHIND, invariants
    from storage.scrub import choose
    from storage.scrub import scrub as read

    with _opened(as_json) as storage:
        blobs = list(storage.blobs.blobs())
        chosen = choose(blobs, sample=sample, max_bytes=max_bytes, chance=random.SystemRandom())
        with read_progress(sum(blob.size_bytes for blob in chosen), quiet=as_json) as tell:
            scrubbed = read(storage, chosen, len(blobs), tell)
        broken = invariants(storage, time.time())
    findings = [damaged.to_json() for damaged in scrubbed.damaged] + [each.to_json() for each in broken]
    counts = {"stored": scrubbed.stored, "checked": scrubbed.checked, "checked_bytes": scrubbed.checked_bytes}
    counts |= {"damaged": len(scrubbed.damaged), "set_aside": sum(each.set_aside for each in scrubbed.damaged)}
    if as_json:
        print_json({**counts, "findings": findings})
    else:
        told = f"{counts['checked']} of {counts['stored']} blobs read, {_size(counts['checked_bytes'])}"
        typer.echo(f"{told}, {counts['damaged']} damaged")
        for finding in findings:
            typer.echo(printable(_line(finding)))
            for receipt in finding.get("receipts", ()):
                typer.echo(f"  named by receipt {receipt}")
    if any(finding["rule"] in LEFT_BEHIND for finding in findings):
        say("something is left of processes that died: ./mosaic reap")
    if any(finding["rule"] not in LEFT_BEHIND for finding in findings):
        raise typer.Exit(SOME_FAILED)


@app.command("gc")
def gc(
    delete: Annotated[bool, typer.Option("--delete", "--yes", help="Do it; without, it is only told.")] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="SUBJECT=DAYS instead of the settings' retention; *, TENANT or TENANT/BUNDLE. Repeatable."),
    ] = None,
    grace_hours: Annotated[float, typer.Option(min=0, help="How long blobs are left alone in either phase.")] = 1,
    as_json: Json = False,
) -> None:
    """Collect blobs that nothing refers to, and media whose retention is over, in two phases: what one collection
    condemns a later one deletes. Safe beside live runs; a legal hold keeps what it covers."""
    from contracts.retention import Retention, retention_of
    from settings.load import load
    from storage.gc import collect

    retention = load().retention_days if keep is None else Retention(retention_of(keep))
    with _opened(as_json) as storage:
        done = collect(storage, retention, time.time(), grace_s=grace_hours * 3_600, delete_blobs=delete)
    told = done.to_json()
    if as_json:
        print_json({"dry_run": not delete, **told, "findings": []})
        return
    names = ("condemned", "deleted", "waiting", "spared", "kept_by_store")
    rows = ((name.replace("_", " "), told[name]["count"], _size(told[name]["size_bytes"])) for name in names)
    print_table("collected" if delete else "would be collected", ("what", "blobs", "size"), rows)
    for tenant, count in sorted(done.retired.items()):
        typer.echo(f"media of {count} receipts of {tenant} are over their retention")
    if done.waiting.count and done.live_runs:
        typer.echo(f"{done.live_runs} runs are open: what they may rely on waits for their end, or for ./mosaic reap")
    if not delete:
        say("nothing was changed; --delete does it")


@contextmanager
def _opened(quiet: bool) -> Iterator[Storage]:
    if not quiet:
        say("mosaic: looking through the store")
    from settings.load import load
    from storage.home import storage_of

    storage = storage_of(load())
    try:
        yield storage
    finally:
        storage.close()


def _line(finding: dict[str, Any]) -> str:
    digest = finding["digest"] or ""
    return f"{finding['rule']}: {finding['reason']}" + ("" if digest in finding["reason"] else f" {digest}")


def _size(size_bytes: int) -> str:
    from rich.filesize import decimal

    return decimal(size_bytes)
