"""The launcher on machines that lack something: it says what, and the one line to type."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.digest import Digest
from tests.command import REPOSITORY

_TOOLS = ("sh", "readlink", "dirname", "basename", "sha256sum", "cut", "cat", "mkdir", "flock", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without any environment: the launcher, its locks, and a command line that says it was reached."""
    folder = tmp_path / "a checkout"
    (folder / "cli").mkdir(parents=True)
    for name in ("mosaic", "requirements.lock", "requirements-dev.lock", "requirements-uv.lock"):
        shutil.copy2(REPOSITORY / name, folder / name)
    (folder / "cli" / "__main__.py").write_text("import sys; print('reached', *sys.argv[1:]); sys.exit(1)\n")
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder for PATH with the system's small tools and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in _TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return folder


def _launch(checkout: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path), "HOME": str(checkout)}
    return subprocess.run(
        [checkout / "mosaic", *arguments], env=environment, cwd="/", capture_output=True, text=True, check=False
    )


def _python(path: Path, name: str, program: str) -> None:
    file = path / name
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)


@pytest.mark.parametrize("arguments", [("settings",), ("test",)])
def test_no_python(checkout: Path, path: Path, arguments: tuple[str, ...]) -> None:
    """Without Python the launcher ends with 3, the reason and the line to type, and leaves nothing half made."""
    ended = _launch(checkout, path, *arguments)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "no Python >= 3.11" in ended.stderr
    assert "type: apt-get install python3" in ended.stderr
    assert not (checkout / ".venv").exists()
    assert not (checkout / ".venv-test").exists()


def test_old_python(checkout: Path, path: Path) -> None:
    """A Python that is too old is as good as none."""
    _python(path, "python3", "exit 1  # what an older one answers to the question for its version")
    assert _launch(checkout, path, "settings").returncode == 3


def test_no_venv(checkout: Path, path: Path) -> None:
    """A Python without venv, as Debian ships it, ends with 3 and the package to install."""
    _python(path, "python3", f'[ "$2" = venv ] && exit 1; exec {sys.executable} "$@"')
    ended = _launch(checkout, path, "settings")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "no venv" in ended.stderr
    assert "type: apt-get install python3-venv" in ended.stderr


def test_environment_that_is_there(checkout: Path, path: Path) -> None:
    """With the environment of this very lock nothing is installed: arguments and exit code go through unchanged."""
    stamp = Digest.of((checkout / "requirements.lock").read_bytes()).hex
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / ".stamp").write_text(stamp + "\n")
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    ended = _launch(checkout, path, "run", "a b.yaml", "--set", "x=*")
    assert (ended.returncode, ended.stdout) == (1, "reached run a b.yaml --set x=*\n"), ended.stderr
    (checkout / "requirements.lock").write_text("# changed\n")
    assert _launch(checkout, path, "run").returncode == 3


def test_packages_that_cannot_be_installed(checkout: Path, path: Path) -> None:
    """Where the package index fails the launcher ends with 3, says what to type, and takes no half for a whole."""
    _python(path, "python3", f'exec {sys.executable} "$@"')
    _python(path, "uv", '[ "$1" = venv ] || { echo "uv: no index" >&2; exit 2; }')
    ended = _launch(checkout, path, "settings")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "requirements.lock could not be installed" in ended.stderr
    assert f"type: {checkout / 'mosaic'} settings" in ended.stderr
    assert not (checkout / ".venv" / ".stamp").exists()


def test_by_a_link(checkout: Path, path: Path, tmp_path: Path) -> None:
    """Called through a link from elsewhere the launcher still finds its own checkout."""
    link = tmp_path / "linked"
    link.symlink_to(checkout / "mosaic")
    ended = subprocess.run([link, "settings"], env={"PATH": str(path)}, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert (checkout / ".tools").is_dir()


def test_shellcheck() -> None:
    """The launcher is clean in shellcheck's eyes, as POSIX shell."""
    if shutil.which("shellcheck") is None:
        if os.environ.get("CI"):
            pytest.fail("shellcheck is missing; .ci/apt.txt names it")
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    checked = subprocess.run(
        ["shellcheck", "--shell=sh", REPOSITORY / "mosaic"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
