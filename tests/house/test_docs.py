"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")) if page.is_file()
)
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("name", sorted(path.stem.removeprefix("render_") for path in ROOT.glob("docs/render_*.py")))
def test_a_page_that_the_code_renders_is_not_stale(name: str) -> None:
    """It is what `python -m docs.render_NAME > docs/NAME.md` makes now."""
    command = [sys.executable, "-m", f"docs.render_{name}"]
    rendered = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert rendered.stdout.decode() == (ROOT / "docs" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    """No page of the repository has a dead link into it."""
    dead = [link for link in _LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert dead == []


def test_every_setting_is_on_the_settings_page() -> None:
    """docs/settings.md names each setting that can be set."""
    from settings.load import load

    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    names = {name for name, _, _ in load(environment={}).describe() if not name.startswith(("limits.", "policies."))}
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_command_of_the_readme_exists() -> None:
    """Each `./mosaic X` that the README shows is a command, and each command is shown."""
    from cli.app import app

    commands = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    page = (ROOT / "README.md").read_text("utf-8")
    shown = set(re.findall(r"\./mosaic ([a-z]+)", page))
    assert shown == commands
