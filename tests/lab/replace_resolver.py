"""Fetch by a name, with a resolver's file that names nobody and then with another in its place; prints both rules.

Exit code 77: namespaces are not allowed here.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from contracts.network_policy import PUBLIC_WEB  # noqa: E402
from tests.lab.private_network import NotAllowed, enter, mount  # noqa: E402
from tests.lab.run_cases import NOT_ALLOWED, Lab, by_fetcher  # noqa: E402

CASE = {"url": "http://a.example.com/", "dns": ["93.184.216.34"]}
PLACE = "/etc/resolv.conf"


async def _fetch_twice(folder: Path) -> None:
    lab = Lab(folder)
    deaf = folder / "deaf.conf"
    deaf.write_text("nameserver 127.0.0.9\noptions timeout:1 attempts:1\n", "ascii")
    mount(deaf, PLACE)
    async with by_fetcher(lab) as fetch:
        print((await lab.run(fetch, PUBLIC_WEB, CASE))["rule"])
        mount(folder / "resolv.conf", PLACE)
        print((await lab.run(fetch, PUBLIC_WEB, CASE))["rule"])


def main() -> None:
    """The command."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # what is mounted over stays till the end
        try:
            enter(Path(folder))
        except (NotAllowed, OSError) as error:
            print(f"no private network here: {error}", file=sys.stderr)
            sys.exit(NOT_ALLOWED)
        asyncio.run(_fetch_twice(Path(folder)))


if __name__ == "__main__":
    main()
