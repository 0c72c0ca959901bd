"""Attacks from inside the fetcher's confinement, with and without the namespaces, as root and as another user."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.network_policy import PUBLIC_WEB
from intake.fetch_session import ENVIRONMENT
from intake.fetcher import Fetcher
from sandbox import landlock
from tests.intake.attack_family import ATTACKS, FATAL, RIGHTS, WORKS_UNCONFINED
from tests.sandbox.unprivileged import ROOT, USER, unprivileged
from tests.simulators.origin import drip, origin

REFUSED = {"EPERM", "EACCES", "EROFS"}
ABSENT = {"ENOENT", "ESRCH"}
"""How it fails where what is attacked does not exist, which is for the namespaces to see to."""
SECRETS = {
    **{"HTTPS_PROXY": "http://proxy.example.com", "AWS_SECRET_ACCESS_KEY": "secret", "MOSAIC_GATEWAY_TOKEN": "secret"},
    **{"SSL_CERT_FILE": "/somewhere", "LD_PRELOAD": "", "PYTHONPATH": str(ROOT), "RES_OPTIONS": "attempts:9"},
}


@dataclass(frozen=True)
class Setting:
    """Who starts the fetcher, and whether it has the second layer."""

    user: str
    seen: str

    def __str__(self) -> str:
        return f"by {self.user} {'with' if self.seen == 'view' else 'without'} namespaces"


SETTINGS = [Setting(user, seen) for user in ("root", "another user") for seen in ("view", "all")]


def came_of(setting: Setting, scratch: Path, kind: str = "confined") -> Mapping[str, object]:
    """What an attacker in `setting` says."""
    home = scratch / f"{setting} {kind}".replace(" ", "-")
    (home / "store").mkdir(parents=True)
    for file in ("store/blob", "ledger.sqlite"):
        (home / file).write_bytes(b"ours")
        (home / file).chmod(0o666)
    (home / "store").chmod(0o777)
    home.chmod(0o777)
    wrapper = unprivileged(home) if setting.user == "another user" else []
    command = [*wrapper, sys.executable, "-m", "tests.intake.attack_family", kind, setting.seen, str(home)]
    environment = {**os.environ, **SECRETS}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said: dict[str, object] = json.loads(ran.stdout)
    assert (home / "store" / "blob").read_bytes() == b"ours" or kind == "unconfined"
    return said


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that every user may pass."""
    folder = tmp_path_factory.mktemp("attacks")
    for path in (folder, folder.parent):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def setting(request: pytest.FixtureRequest) -> Setting:
    """Each of the four."""
    found = request.param
    assert isinstance(found, Setting)
    return found


@pytest.fixture(scope="module")
def said(setting: Setting, scratch: Path) -> Mapping[str, object]:
    if setting.user == "root" and os.getuid() != 0:
        pytest.skip("not run as root")
    found = came_of(setting, scratch)
    if setting.seen == "view" and "namespaces" not in layers(found):
        pytest.skip("this machine makes no namespaces for this user")
    return found


def layers(said: Mapping[str, object]) -> list[str]:
    """The layers that the attacker was told of."""
    found = said["layers"]
    assert isinstance(found, list)
    return found


def outcome(said: Mapping[str, object], sentence: str) -> str:
    """What came of one attack."""
    outcomes = said["outcomes"]
    assert isinstance(outcomes, dict)
    return str(outcomes[sentence])


@pytest.mark.parametrize("sentence", ATTACKS)
def test_the_fetcher_cannot(said: Mapping[str, object], setting: Setting, sentence: str) -> None:
    """Each attack is refused, whoever started the fetcher, and by each of the two layers' sets."""
    expected = {"killed"} if sentence in FATAL else REFUSED | (ABSENT if setting.seen == "view" else set())
    assert outcome(said, sentence) in expected


@pytest.mark.parametrize("sentence", RIGHTS)
def test_the_fetcher_can_still(said: Mapping[str, object], sentence: str) -> None:
    """What it needs for its work is not refused: the attacks fail for their own sake."""
    assert outcome(said, sentence) == "done"


def test_the_environment_is_the_one_it_was_given(said: Mapping[str, object]) -> None:
    """No token, proxy, path or option of its parent; it starts in the root folder."""
    assert said["environment"] == ENVIRONMENT
    assert said["directory"] == "/"
    if "environ" in said:
        assert str(said["environ"]).strip("\0").split("\0") == [f"{key}={value}" for key, value in ENVIRONMENT.items()]


def test_the_layers_are_those_in_force(said: Mapping[str, object], setting: Setting) -> None:
    """The names that go into each record, in full; another user is dropped to only by root."""
    assert said["user"] == (0 if setting.user == "root" else USER if os.getuid() == 0 else os.getuid())
    expected = ["no_new_privs", "rlimits"]
    expected += ["namespaces"] if setting.seen == "view" else []
    expected += ["uid-65534"] if setting.user == "root" else []
    expected += [f"landlock-{landlock.abi()}"] if landlock.abi() else []
    assert layers(said) == [*expected, "seccomp"]


def test_the_attacks_are_real(scratch: Path) -> None:
    """Unconfined, those that do no harm and need no more than a user's rights succeed."""
    setting = Setting("root" if os.getuid() == 0 else "another user", "all")
    said = came_of(setting, scratch, "unconfined")
    failed = {sentence: came for sentence in WORKS_UNCONFINED if (came := outcome(said, sentence)) != "done"}
    assert failed in ({}, {"execute a program": "died"})


async def test_the_real_fetcher_has_the_layer_and_its_records_name_it(tmp_path: Path) -> None:
    """A record names every layer around the child that made it, also for what was refused."""
    async with Fetcher() as fetcher:
        with (tmp_path / "body").open("w+b") as file:
            url = "http://127.0.0.1/"
            record = await fetcher.fetch(url, policy=PUBLIC_WEB, max_bytes=10, into=file.fileno())
        assert record.failure is not None
        assert record.layers == fetcher.layers
        inside = fetcher.worker_pid != fetcher.pid
        assert ("namespaces" in record.layers) == inside


FETCHING = """
import asyncio, sys
from pathlib import Path
from contracts.network_policy import NetworkPolicy
from intake.fetcher import Fetcher
from intake.quarantine import open_quarantine

async def main(url, folder):
    policy = NetworkPolicy("test-unsafe-loopback", ports=None, unsafe_allow_networks=("127.0.0.1/32",))
    async with Fetcher() as fetcher:
        with open_quarantine(Path(folder)) as file:
            task = asyncio.create_task(fetcher.fetch(url, policy=policy, max_bytes=1 << 20, into=file.fileno()))
            while not Path(f"/proc/self/fd/{file.fileno()}").stat().st_size:
                await asyncio.sleep(0)
            print(fetcher.pid, fetcher.worker_pid, flush=True)
            await task

asyncio.run(main(*sys.argv[1:]))
"""


async def test_after_a_kill_nothing_is_left(tmp_path: Path) -> None:
    """SIGKILL in the middle of a body: no process of the fetcher and no file of its bytes is left."""
    folder = tmp_path / "quarantine"
    async with origin({"/": drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 64, 0.01)}) as served:
        parent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FETCHING, served.url("/"), str(folder)), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout is not None
        pids = {int(word) for word in (await parent.stdout.readline()).split()}
        descriptors = [os.pidfd_open(pid) for pid in pids]
        assert descriptors
        parent.kill()
        await parent.wait()
        for descriptor in descriptors:
            poll = select.poll()
            poll.register(descriptor)
            assert await asyncio.to_thread(poll.poll, 10_000), "a process of the fetcher is still alive"
            os.close(descriptor)
    assert list(folder.iterdir()) == []


BARE = """
import asyncio, sys
from contracts.errors import NeedMissing
from intake.fetcher import Fetcher
from sandbox import seccomp
from sandbox.linux import PR_SET_NO_NEW_PRIVS, prctl

prctl(PR_SET_NO_NEW_PRIVS, 1)
withheld = ("landlock_create_ruleset", "seccomp")
seccomp.install([seccomp.Rule(name, seccomp.refuse(1)) for name in withheld], otherwise=seccomp.ALLOW)

async def main(unsafe):
    try:
        async with Fetcher(unsafe=unsafe) as fetcher:
            print(*fetcher.layers)
    except NeedMissing as error:
        print(error.rule)

asyncio.run(main(sys.argv[1] == "unsafe"))
"""


@pytest.mark.parametrize(
    ("word", "said_last"),
    [("safe", "isolation-missing"), ("unsafe", "unsafe-no-landlock-no-seccomp")],
    ids=["it does not start", "it starts where that was said to be wanted, and each record says so"],
)
def test_on_a_kernel_with_neither_landlock_nor_seccomp(word: str, said_last: str) -> None:
    """Neither layer that could hold hostile code: refused by a rule, or named as what it is."""
    command = [sys.executable, "-c", BARE, word]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    words = ran.stdout.split()
    assert words[-1] == said_last, ran.stderr
    assert not any(word.startswith("landlock") or word == "seccomp" for word in words)
