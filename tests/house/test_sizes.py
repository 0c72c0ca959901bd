"""The house's rules that a reader can count: sizes, names, the one hasher, the one reader of the environment."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 40
FORBIDDEN_NAMES = re.compile(r"(?:^|/)(?:utils?|helpers?|common|misc|managers?)(?:\.[^/]*)?(?:/|$)", re.IGNORECASE)
MACHINE_PATHS = re.compile(r"/(?:wor[k]|roo[t]|far[m]|hom[e]/[a-z])/")
PRODUCT = (
    "cli",
    "flows",
    "tasks",
    "pipeline",
    "intake",
    "storage",
    "serving",
    "inference",
    "stack",
    "sandbox",
    "settings",
    "contracts",
)


@cache
def tracked() -> tuple[str, ...]:
    """The files that git tracks; those on disk where there is no repository (a source archive)."""
    if (ROOT / ".git").exists():
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return tuple(name for name in listing.split("\0") if name and (ROOT / name).is_file())
    hidden = (".venv", ".mosaic", ".tools", "__pycache__")
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return tuple(name for name in names if not name.startswith(hidden) and "__pycache__" not in name)


def python_files(*folders: str) -> list[str]:
    return [n for n in tracked() if n.endswith(".py") and (not folders or n.split("/")[0] in folders)]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text("utf-8"), name)


def imported(name: str) -> set[str]:
    """The top-level modules that a file imports, wherever the import stands."""
    found = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def environment_reads(name: str) -> list[int]:
    """The lines that read the process environment: `os.environ`, `os.getenv`, or either imported from os."""
    names = {"environ", "environb", "getenv", "getenvb"}
    lines = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if isinstance(node.value, ast.Name) and node.value.id == "os":
                lines.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names}:
            lines.append(node.lineno)
    return lines


def test_there_is_something_to_count() -> None:
    """A listing that came out empty would pass every rule below."""
    assert len(python_files("contracts")) > 10


def test_no_file_is_over_350_lines() -> None:
    """A file that needs more is two files."""
    long = {
        name: count
        for name in python_files()
        if (count := len((ROOT / name).read_text("utf-8").splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_no_function_is_over_40_lines() -> None:
    """Counted from `def` to the last line, docstring included."""
    long = {
        f"{name}:{node.name}": node.end_lineno - node.lineno + 1
        for name in python_files()
        for node in ast.walk(tree(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    """No utils, helpers, common, misc or manager."""
    assert [name for name in tracked() if FORBIDDEN_NAMES.search(name)] == []


@pytest.mark.parametrize("name", ["a/utils.py", "helpers/a.py", "common.py", "a/manager.py", "Misc/a"])
def test_the_name_rule_sees_what_it_forbids(name: str) -> None:
    """The pattern matches files and folders, in any case."""
    assert FORBIDDEN_NAMES.search(name)


def test_only_contracts_digest_hashes() -> None:
    """One hashlib, so that there is one way to make a digest."""
    hashing = [name for name in python_files(*PRODUCT) if imported(name) & {"hashlib", "_hashlib", "_sha256"}]
    assert hashing == ["contracts/digest.py"]


def test_only_settings_reads_the_environment() -> None:
    """One reader of os.environ, so that `mosaic settings` tells the whole truth."""
    readers = {name for name in python_files(*PRODUCT) if environment_reads(name)}
    assert readers == {"settings/environment.py"}


def test_every_module_of_the_product_says_what_it_is_for() -> None:
    """A module without a docstring has no purpose anybody could hold it to."""
    assert [name for name in python_files(*PRODUCT) if ast.get_docstring(tree(name)) is None] == []


def test_no_file_names_a_path_of_a_machine() -> None:
    """What works only where it was written does not work."""
    found = []
    for name in tracked():
        try:
            text = (ROOT / name).read_text("utf-8")
        except UnicodeDecodeError:
            continue  # media and model weights
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []
