"""`mosaic fetch`: a record for each URL in the order given, the bytes under their digest, refusals by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from contracts.digest import Digest
from tests.command import Finished, Mosaic
from tests.simulators.origin import Origin, answer, origin, redirect

BODY = b"the bytes of a medium"
SCRIPTS = {
    "/a?token=secret": redirect("/b"),
    "/b": answer("200 OK", {"Content-Type": "image/png"}, BODY),
    "/inside": redirect("http://169.254.169.254/latest"),
    "/gone": answer("404 Not Found"),
}


@asynccontextmanager
async def served(mosaic: Mosaic, folder: Path) -> AsyncIterator[tuple[Mosaic, Origin]]:
    """A loopback origin, and the command line with the policy `unsafe-here` that may reach it."""
    async with origin(SCRIPTS) as there:
        file = folder / "mosaic.toml"
        file.write_text(f'[policies.unsafe-here]\nports = [{there.port}]\nunsafe_allow_networks = ["127.0.0.1/32"]\n')
        yield replace(mosaic, variables={"MOSAIC_SETTINGS": str(file)}), there


async def run(mosaic: Mosaic, *arguments: str | Path) -> Finished:
    return await asyncio.to_thread(mosaic, "fetch", *arguments)


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


async def test_bytes_and_records(mosaic: Mosaic, tmp_path: Path) -> None:
    """The bytes are there under their digest, the record says how they came, and no query is shown."""
    async with served(mosaic, tmp_path) as (command, there):
        url = there.url("/a?token=secret")
        ended = await run(command, url, "--policy", "unsafe-here", "--out", tmp_path / "out", "--json")
    row = ended.object
    assert ended.code == 0, ended.err
    assert (row["url"], row["final"], row["verdict"]) == (there.url("/a"), there.url("/b"), "acquired")
    assert (row["digest"], row["size_bytes"]) == (str(Digest.of(BODY)), len(BODY))
    assert [hop["status"] for hop in row["hops"]] == [302, 200]
    assert row["file"] == str(tmp_path / "out" / Digest.of(BODY).hex)
    assert contents(tmp_path / "out") == {Digest.of(BODY).hex: BODY}
    assert "secret" not in ended.out + ended.err


async def test_what_is_not_had_is_said_in_the_order_given(mosaic: Mosaic, tmp_path: Path) -> None:
    """A refusal, a failure and a success: one line each, exit code 1, and only the success has a file."""
    async with served(mosaic, tmp_path) as (command, there):
        urls = [there.url("/inside"), there.url("/gone"), "http://127.0.0.1:1/x", "http://user@example.com/",
                there.url("/b"), there.url("/b")]  # fmt: skip
        ended = await run(command, *urls, "--policy", "unsafe-here", "--out", tmp_path / "out", "--json")
    assert ended.code == 1
    assert [(row["verdict"], row["rule"]) for row in ended.objects] == [
        ("refused", "port"),
        ("failed", "http-status"),
        ("refused", "port"),
        ("refused", "url-userinfo"),
        ("acquired", None),
        ("acquired", None),
    ]
    assert [row["file"] is not None for row in ended.objects] == [False] * 4 + [True] * 2
    assert [hop["status"] for hop in ended.objects[0]["hops"]] == [302]
    assert len(contents(tmp_path / "out")) == 1


async def test_people_see_a_table(mosaic: Mosaic, tmp_path: Path) -> None:
    """The default policy refuses this machine, and says so by name."""
    ended = await run(mosaic, "http://127.0.0.1/", "--out", tmp_path / "out")
    assert ended.code == 1
    assert "address-denied" in ended.out
    assert "public-web" in ended.err
    unknown = await run(mosaic, "http://127.0.0.1/", "--policy", "absent", "--out", tmp_path)
    assert (unknown.code, unknown.out) == (2, "")
    assert "policy-unknown" in unknown.err


async def test_a_body_over_the_cap_is_not_had(mosaic: Mosaic, tmp_path: Path) -> None:
    """The cap is the caller's to narrow."""
    async with served(mosaic, tmp_path) as (command, there):
        arguments = (there.url("/b"), "--policy", "unsafe-here", "--out", tmp_path / "out", "--json")
        ended = await run(command, *arguments, "--max-bytes", "3")
    assert (ended.code, ended.object["rule"]) == (1, "body-over-limit")
    assert contents(tmp_path / "out") == {}


async def test_a_cap_is_not_wider_than_the_limits(mosaic: Mosaic, tmp_path: Path) -> None:
    """The fetcher may write no larger file, so it would ask again and again for what it cannot take."""
    ended = await run(mosaic, "http://127.0.0.1/", "--out", tmp_path / "out", "--max-bytes", str(1 << 40))
    assert (ended.code, ended.out) == (2, "")
    assert "[max-bytes]" in ended.err


async def test_a_folder_that_takes_no_file_is_said_in_a_line(mosaic: Mosaic) -> None:
    """It is there, so only the first file shows that nothing can be written to it; no trace of ours is printed."""
    ended = await run(mosaic, "http://127.0.0.1/", "http://127.0.0.2/", "--out", "/proc")
    assert (ended.code, ended.out) == (3, "")
    assert "[disk]" in ended.err
    assert "Traceback" not in ended.err
