"""Run cases of a case file through the real fetcher in a private network: python tests/lab/run_cases.py CASES.jsonl

Prints a JSON object per case: `url`, `verdict` (allow, deny or failed), `rule`, `reason`, `status`, `dialled` (what was
really contacted, seen on the wire), `forbidden` (those of it that no policy for the public web may contact), `bytes`
(sent to those). Case lines as for `mosaic policy check`: `url`, `dns`, `dns_then`, `location` (or a list, one a
hop). The policy `lab-unsafe-anywhere` in a line shows what the lab sees of a fetcher that may do all. Exit code 77:
namespaces are not allowed here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from contracts.address_tables import Address  # noqa: E402
from contracts.errors import ChildFailed  # noqa: E402
from contracts.limits import Limits  # noqa: E402
from contracts.network_policy import NetworkPolicy  # noqa: E402
from contracts.records import AcquisitionRecord  # noqa: E402
from intake.fetcher import Fetcher  # noqa: E402
from settings.load import load  # noqa: E402
from tests.lab.names import NameServer  # noqa: E402
from tests.lab.origins import Origins  # noqa: E402
from tests.lab.private_network import NotAllowed, enter  # noqa: E402
from tests.lab.witness import Contact, Witness  # noqa: E402

NOT_ALLOWED = 77
CONTROL = NetworkPolicy("lab-unsafe-anywhere", ports=None, unsafe_allow_networks=("0.0.0.0/0", "::/0"))
LIMITS = Limits().changed({"fetch_connect_s": 3.0, "fetch_total_s": 5.0})
_REGISTRY = [
    ip_network(line.partition("\t")[0])
    for line in (ROOT / "tests" / "vectors" / "iana_special_purpose.tsv").read_text("ascii").splitlines()
]
_BESIDE = [ip_network(block) for block in ("224.0.0.0/4", "168.63.129.16/32", "ff00::/8", "fec0::/10", "::/96")]


def is_forbidden(address: Address) -> bool:
    """Whether nothing for the public web may contact `address`: by the registry's own list, not by our tables."""
    mapped = None if isinstance(address, IPv4Address) else address.ipv4_mapped
    return any(
        each.version == network.version and each in network
        for each in (address, mapped)
        if each is not None
        for network in (*_REGISTRY, *_BESIDE)
    )


Fetch = Callable[[str, NetworkPolicy], Awaitable[dict[str, Any]]]


class Lab:
    """The private network's servers and its witness."""

    def __init__(self, folder: Path) -> None:
        self.names, self.origins, self._witness = NameServer(), Origins(folder), Witness()

    async def run(self, fetch: Fetch, policy: NetworkPolicy, case: dict[str, Any]) -> dict[str, Any]:
        """Fetch the case's URL; what came of it and whom it contacted."""
        turns = [case.get("dns", []), case["dns_then"]] if "dns_then" in case else [case.get("dns", [])]
        self.names.script(*turns)
        location = case.get("location", [])
        self.origins.script(*([location] if isinstance(location, str) else location))
        self._witness.contacts()
        outcome = await fetch(case["url"], policy)
        return {"url": case["url"], **outcome, **_contacted(self._witness.contacts())}


@asynccontextmanager
async def by_fetcher(lab: Lab) -> AsyncIterator[Fetch]:
    """The fetcher itself, one for all cases."""
    async with Fetcher(LIMITS, extra_anchors=lab.origins.anchors, stderr=2) as fetcher:

        async def fetch(url: str, policy: NetworkPolicy) -> dict[str, Any]:
            with tempfile.TemporaryFile() as file:
                try:
                    record = await fetcher.fetch(url, policy=policy, max_bytes=1 << 20, into=file.fileno())
                except ChildFailed as error:
                    return {"verdict": "failed", "rule": error.rule, "reason": error.reason, "status": None}
                return _outcome(record)

        yield fetch


@asynccontextmanager
async def by_command(lab: Lab) -> AsyncIterator[Fetch]:
    """`mosaic fetch`, started anew for each case: half a second each."""
    with tempfile.TemporaryDirectory() as folder:
        anchors = Path(folder) / "anchors.pem"
        anchors.write_text(lab.origins.anchors, "ascii")

        async def fetch(url: str, policy: NetworkPolicy) -> dict[str, Any]:
            options = ["--policy", policy.name, "--out", folder, "--ca", str(anchors), "--json"]
            arguments = [sys.executable, "-P", "-m", "cli", "fetch", *options, "--", url]
            ended = await asyncio.to_thread(
                subprocess.run, arguments, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
            )
            if not ended.stdout:
                return {"verdict": "failed", "rule": f"exit-{ended.returncode}", "reason": "no record", "status": None}
            row = json.loads(ended.stdout)
            denied = row["verdict"] == "refused" or row["rule"] == "dns-no-answer"
            verdict = "allow" if row["verdict"] == "acquired" else "deny" if denied else "failed"
            status = row["hops"][-1]["status"] if row.get("hops") else None
            return {"verdict": verdict, "rule": row["rule"] or policy.name, "reason": row["reason"], "status": status}

        yield fetch


def _outcome(record: AcquisitionRecord) -> dict[str, Any]:
    status = record.hops[-1].status if record.hops else None
    if record.failure is None:
        return {"verdict": "allow", "rule": record.policy, "reason": "acquired", "status": status}
    denied = record.failure.error == "PolicyDenied" or record.failure.rule == "dns-no-answer"
    verdict = "deny" if denied else "failed"
    return {"verdict": verdict, "rule": record.failure.rule, "reason": record.failure.reason, "status": status}


def _contacted(contacts: Iterable[Contact]) -> dict[str, Any]:
    contacts = list(contacts)
    bad = [contact for contact in contacts if is_forbidden(contact.address)]
    return {
        "dialled": [str(contact) for contact in contacts],
        "forbidden": [str(contact) for contact in bad],
        "bytes": sum(contact.bytes for contact in bad),
    }


async def run_all(folder: Path, policy: NetworkPolicy, cases: Iterable[dict[str, Any]], *, command: bool) -> None:
    """Run the cases one after the other, because each has its own answer for names that others have too."""
    lab = Lab(folder)
    async with by_command(lab) if command else by_fetcher(lab) as fetch:
        for case in cases:
            chosen = CONTROL if case.get("policy") == CONTROL.name else policy
            print(json.dumps(await lab.run(fetch, chosen, case)), flush=True)


def _cases(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for line in file.read_text("utf-8").split("\n"):
            if line.strip():
                yield json.loads(line)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Path)
    parser.add_argument("--policy", help="named policy; the deployment's by default")
    parser.add_argument("--command", action="store_true", help="run `mosaic fetch` for each, not the fetcher for all")
    arguments = parser.parse_args()
    policy, cases = load().network_policy(arguments.policy), list(_cases(arguments.cases))
    with tempfile.TemporaryDirectory() as folder:
        try:
            enter(Path(folder))
        except (NotAllowed, OSError) as error:
            print(f"no private network here: {error}", file=sys.stderr)
            sys.exit(NOT_ALLOWED)
        asyncio.run(run_all(Path(folder), policy, cases, command=arguments.command))


if __name__ == "__main__":
    main()
