"""`mosaic demo`: the main job on real input, on this machine, in a minute."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, say
from cli.run import PREFECT_TOO
from contracts.network_policy import NetworkPolicy

if TYPE_CHECKING:
    from cli.analysis import Analysis
    from settings.values import Settings

POLICY = "demo-unsafe-loopback"
"""Allows the demo's own loopback origin beside the public web. It exists only within this command: anywhere else a
bundle that asserts it is refused."""


def demo(
    direct: Annotated[bool, typer.Option("--direct", help="Run the same pipeline without Prefect.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch, inspect, ask and prove: good media answered rightly, bad media refused by name.

    Exit 1: some of the demo's questions are bad on purpose.
    """
    say("mosaic demo: drawing media and starting an origin, the engine" + ("" if direct else PREFECT_TOO))
    from settings.load import load

    settings = load()
    analysis = asyncio.run(_demo(settings, direct=direct, quiet=as_json))
    if as_json:
        print_json(analysis.to_json())
    else:
        analysis.print()
    if not _verified(settings, analysis):
        raise typer.Exit(SOME_FAILED)
    raise typer.Exit(analysis.exit_code)


async def _demo(settings: Settings, *, direct: bool, quiet: bool) -> Analysis:
    import yaml

    from cli.analysis import analyse
    from cli.demo.origin import Origin
    from cli.demo.questions import demonstration
    from pipeline.loading import load_bundle

    shown = await asyncio.to_thread(demonstration)
    origin = Origin(shown.files, shown.redirects, shown.drips)
    async with origin.serve() as port:
        allowed = replace(settings, policy=POLICY, policies={POLICY: _policy(port)})
        path = settings.home / "demo" / f"bundle-{port}.yaml"  # its URLs name the port, which is another every time
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(
            yaml.safe_dump(shown.bundle(f"http://127.0.0.1:{port}", POLICY), sort_keys=False, allow_unicode=True),
            "utf-8",
        )
        say(f"mosaic demo: the bundle is {path}")
        return await analyse(allowed, path, load_bundle(path, allowed), again=True, direct=direct, quiet=quiet)


def _policy(port: int) -> NetworkPolicy:
    """The public web over http, and this origin: so the redirect to a metadata address is denied for where it leads."""
    return NetworkPolicy(POLICY, schemes=("http",), ports=(80, port), unsafe_allow_networks=("127.0.0.1/32",))


def _verified(settings: Settings, analysis: Analysis) -> bool:
    """Verify every receipt of the run from the store alone, and say so."""
    from storage.home import storage_of
    from storage.verify import VerdictName, verify_receipt

    storage = storage_of(settings)
    verdicts = [
        verify_receipt(name, data, storage.blobs)
        for name, data in storage.receipts.all(tenant=settings.tenant, run=analysis.run)
    ]
    storage.close()
    bad = [verdict for verdict in verdicts if verdict.verdict is not VerdictName.VALID]
    say(f"mosaic demo: {len(verdicts) - len(bad)} of {len(verdicts)} receipts verified from the store alone")
    for verdict in bad:
        say(f"  {verdict.receipt}: " + "; ".join(finding.reason for finding in verdict.findings))
    return not bad
